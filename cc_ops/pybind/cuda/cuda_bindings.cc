#include "pybind/cuda/cuda_bindings.h"

#include <cuda_runtime.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "core/compressor.h"
#include "cuda/cuda_status.h"
#include "cuda/driver.h"
#include "cuda/frame_encoder.h"
#include "cuda/owned_memory.h"
#include "cuda/sum_decoder.h"
#include "pybind/conversion.h"
#include "pybind/cuda/device_array.h"

namespace tfcompress {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

std::optional<cudaStream_t> ToGivenStream(std::optional<uintptr_t> number) {
  if (!number.has_value()) return std::nullopt;
  return ToStream(*number);
}

// Returns the gradient, followed by the slots.
std::vector<DeviceArray> EncodeArrays(const py::object& array, const std::string& dtype_name,
                                      const std::vector<py::object>& slots) {
  std::vector<DeviceArray> arrays = {ToDeviceArray("array", array, dtype_name, Access::kRead)};
  for (const py::object& slot : slots) {
    const std::string name = "slot " + std::to_string(arrays.size() - 1);
    arrays.push_back(ToDeviceArray(name, slot, "float32", Access::kWrite));
    if (arrays.back().n != arrays[0].n) {
      throw py::value_error(name + " has " + std::to_string(arrays.back().n) +
                            " elements, the array has " + std::to_string(arrays[0].n));
    }
  }
  return arrays;
}

// Returns the given slots, or temporary zeros if none are given. Fails with InvalidArgument unless
// there are as many as the memory needs.
Status SlotsOf(const Compressor& compressor, const std::vector<DeviceArray>& arrays,
               device::OwnedMemory* zeros, cudaStream_t stream,
               std::vector<device::DeviceSlot>* slots) {
  const auto num_slots = static_cast<size_t>(compressor.memory().num_slots());
  const size_t num_given = arrays.size() - 1;
  if (num_given > 0 && num_given != num_slots) {
    return InvalidArgument("the memory of '", compressor.spec(), "' needs ", num_slots,
                           " slots, got ", num_given);
  }
  std::vector<float*> vectors;
  for (size_t i = 0; i < num_given; ++i)
    vectors.push_back(static_cast<float*>(arrays[i + 1].data_dev));
  const uint64_t n = arrays[0].n;
  if (num_given < num_slots && n > 0) {
    TFC_RETURN_IF_ERROR(zeros->Allocate(num_slots * n * sizeof(float)));
    auto* const first = static_cast<float*>(zeros->buffer().data_dev);
    TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(first, 0, zeros->buffer().num_bytes, stream));
    for (size_t i = 0; i < num_slots; ++i) vectors.push_back(first + i * n);
  }
  for (float* vector : vectors) slots->push_back({vector, vector});
  return OkStatus();
}

Status EncodeArray(const Compressor& compressor, const std::vector<DeviceArray>& arrays,
                   uint64_t seed, std::optional<cudaStream_t> given, Bytes* bytes) {
  const DeviceArray& array = arrays[0];
  cudaStream_t stream;
  TFC_RETURN_IF_ERROR(WaitForWriters(arrays, given, &stream));
  TFC_ASSIGN_OR_RETURN(const device::FrameEncoder encoder,
                       device::FrameEncoder::Make(compressor, array.dtype, array.n));
  device::OwnedMemory workspace, frame, zeros;
  std::vector<device::DeviceSlot> slots;
  TFC_RETURN_IF_ERROR(SlotsOf(compressor, arrays, &zeros, stream, &slots));
  TFC_RETURN_IF_ERROR(workspace.Allocate(encoder.workspace_bytes()));
  TFC_RETURN_IF_ERROR(frame.Allocate(encoder.max_frame_bytes()));
  uint64_t num_bytes = 0;
  TFC_RETURN_IF_ERROR(encoder.Encode({array.data_dev, slots, seed, frame.buffer()},
                                     workspace.buffer(), stream, &num_bytes));
  bytes->resize(num_bytes);
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(bytes->data(), frame.buffer().data_dev, num_bytes,
                                           cudaMemcpyDeviceToHost, stream));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return OkStatus();
}

py::bytes Encode(const py::object& array, const std::string& spec, uint64_t seed,
                 const std::vector<py::object>& slots, const std::string& dtype_name,
                 std::optional<uintptr_t> stream) {
  const std::vector<DeviceArray> arrays = EncodeArrays(array, dtype_name, slots);
  const auto compressor = ValueOrThrow(Compressor::FromSpec(spec));
  const std::optional<cudaStream_t> given = ToGivenStream(stream);
  const ArraysDevice device(arrays);
  Bytes frame;
  ThrowIfError(WithoutGil([&] { return EncodeArray(*compressor, arrays, seed, given, &frame); }));
  return ToBytes(frame);
}

Status SumToArrays(const PacketsView& packets, const std::vector<DeviceArray>& arrays, float scale,
                   std::optional<cudaStream_t> given) {
  cudaStream_t stream;
  TFC_RETURN_IF_ERROR(WaitForWriters(arrays, given, &stream));
  std::vector<int64_t> positions;
  std::vector<SumTarget> targets;
  for (const DeviceArray& array : arrays) {
    positions.push_back(static_cast<int64_t>(targets.size()));
    targets.push_back({array.data_dev, array.dtype, array.n});
  }
  TFC_ASSIGN_OR_RETURN(const device::SumDecoder decoder,
                       device::SumDecoder::Make(packets, positions, targets));
  device::OwnedMemory workspace, packets_dev;
  TFC_RETURN_IF_ERROR(workspace.Allocate(decoder.workspace_bytes()));
  TFC_RETURN_IF_ERROR(packets_dev.Allocate(packets.bytes.size()));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(packets_dev.buffer().data_dev, packets.bytes.data(),
                                           packets.bytes.size(), cudaMemcpyHostToDevice, stream));
  return decoder.DecodeSum(static_cast<const unsigned char*>(packets_dev.buffer().data_dev), scale,
                           workspace.buffer(), stream, {});
}

void DecodeSumToArrays(const py::object& packets, const std::vector<py::object>& out,
                       int64_t num_ranks, float scale, const std::string& dtype_name,
                       std::optional<uintptr_t> stream) {
  std::vector<DeviceArray> arrays;
  for (const py::object& array : out) {
    const std::string name = "out " + std::to_string(arrays.size());
    arrays.push_back(ToDeviceArray(name, array, dtype_name, Access::kWrite));
  }
  const BytesView bytes(packets);
  const PacketsView view = {bytes.span(), num_ranks, static_cast<int64_t>(arrays.size())};
  const std::optional<cudaStream_t> given = ToGivenStream(stream);
  const ArraysDevice device(arrays);
  ThrowIfError(WithoutGil([&] { return SumToArrays(view, arrays, scale, given); }));
}

// Why nothing here can run on this machine; empty if it can.
std::string Obstacle() {
  if (const Status status = device::CheckDriver(); !status.ok()) return status.message();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return device::FromCuda(error, "cudaGetDeviceCount").message();
  return count > 0 ? "" : "CUDA finds no GPU";
}

// Raises _core's exception, so that there is only one class of that name.
void TranslateDataLoss(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const DataLossException& error) {
    py::set_error(py::module_::import("tfcompress._core").attr("DataLossError"), error.what());
  }
}

}  // namespace

void DefineCudaBindings(py::module_& module) {
  py::register_local_exception_translator(&TranslateDataLoss);
  module.def("obstacle", &Obstacle, "Why nothing can run on a GPU here; empty if it can.");
  module.def("encode", &Encode, "array"_a, "spec"_a, "seed"_a, "slots"_a, "dtype_name"_a,
             "stream"_a,
             "Encodes an array with `__cuda_array_interface__`, and returns one frame as bytes. "
             "`slots` are the memory's vectors, updated in place; without them the memory starts "
             "with zeros and is discarded. An empty `dtype_name` means the array's own. `stream` "
             "as in the interface, or None.");
  module.def("decode_sum", &DecodeSumToArrays, "packets"_a, "out"_a, "num_ranks"_a, "scale"_a,
             "dtype_name"_a, "stream"_a,
             "Overwrites the arrays `out` with scale * the sum over ranks of their frames in "
             "`packets`, a buffer on the host.");
}

}  // namespace tfcompress
