#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/pipeline.h"
#include "core/registry.h"
#include "core/rows.h"
#include "pybind/bindings.h"
#include "pybind/conversion.h"

namespace tfcompress {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

py::bytes Encode(const py::array& gradient, const std::string& dtype_name, const std::string& spec,
                 uint64_t seed, const std::vector<py::array>& slots, int num_threads,
                 uint32_t width) {
  const DType dtype = ToDType(dtype_name);
  CheckVector("gradient", gradient, ToNumpyDType(dtype));
  std::vector<float*> slot_vectors;
  for (const py::array& slot : slots) {
    const Span<const float> vector = ToSpan<float>("slot", slot);
    if (vector.size() != static_cast<size_t>(gradient.size())) {
      throw py::value_error("slot " + std::to_string(slot_vectors.size()) + " has " +
                            std::to_string(vector.size()) + " elements, the gradient has " +
                            std::to_string(gradient.size()));
    }
    py::array writable = slot;
    slot_vectors.push_back(static_cast<float*>(writable.mutable_data()));  // Throws on read-only.
  }
  const auto compressor = ValueOrThrow(Compressor::FromSpec(spec));
  const GradientView view{gradient.data(), dtype, static_cast<uint64_t>(gradient.size())};
  ThreadExecutor executor = MakeExecutor(num_threads);
  Bytes frame;
  const CodecContext context{seed, &executor, {width, 0}};
  ThrowIfError(
      WithoutGil([&] { return EncodeFrame(*compressor, view, slot_vectors, context, &frame); }));
  return ToBytes(frame);
}

// Allocates arrays for the sums of frames of these sizes and types; `targets` borrows them.
py::list AllocateTargets(const std::vector<uint64_t>& sizes, const std::vector<DType>& dtypes,
                         std::vector<SumTarget>* targets) {
  py::list arrays;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > kMaxElements) {
      throw py::value_error("a tensor of " + std::to_string(sizes[i]) +
                            " elements is above the limit of " + std::to_string(kMaxElements));
    }
    py::array array(ToNumpyDType(dtypes[i]), static_cast<py::ssize_t>(sizes[i]));
    targets->push_back({array.mutable_data(), dtypes[i], sizes[i]});
    arrays.append(array);
  }
  return arrays;
}

py::tuple DecodeSumBinding(const py::object& packets, int num_ranks, float scale,
                           const std::vector<uint64_t>& sizes,
                           const std::vector<std::string>& dtype_names, int num_threads) {
  if (sizes.size() != dtype_names.size()) {
    throw py::value_error(std::to_string(dtype_names.size()) + " dtype_names for " +
                          std::to_string(sizes.size()) + " sizes");
  }
  std::vector<DType> dtypes;
  for (const std::string& name : dtype_names) dtypes.push_back(ToDType(name));
  std::vector<SumTarget> targets;
  const py::list sums = AllocateTargets(sizes, dtypes, &targets);
  const BytesView view(packets);
  std::vector<DecodeStats> stats(sizes.size());
  ThreadExecutor executor = MakeExecutor(num_threads);
  ThrowIfError(WithoutGil([&] {
    return DecodeSum(view.span(), num_ranks, scale, targets, &executor, Span<DecodeStats>(stats));
  }));
  py::list num_bytes;
  for (const DecodeStats& tensor : stats) num_bytes.append(tensor.num_bytes);
  return py::make_tuple(sums, num_bytes);
}

bool HasOnlyZeros(ByteReader reader) {
  reader.SkipZeros();
  return reader.remaining() == 0;
}

// The frames of a packet, without the padding after the last one.
std::vector<Frame> ReadFrames(ByteSpan packet) {
  ByteReader reader(packet);
  std::vector<Frame> frames;
  while (frames.empty() ? reader.remaining() > 0 : !HasOnlyZeros(reader)) {
    Frame frame;
    const Status status = ReadFrame(&reader, &frame);
    ThrowIfError(status.WithContext("frame " + std::to_string(frames.size())));
    frames.push_back(frame);
  }
  return frames;
}

// Decodes a packet: a sum over one rank.
py::list Decode(const py::object& data, int num_threads) {
  const BytesView view(data);
  std::vector<uint64_t> sizes;
  std::vector<DType> dtypes;
  uint64_t num_bytes = 0, num_elements = 0;
  for (const Frame& frame : ReadFrames(view.span())) {
    ThrowIfError(VerifyChecksum(frame).WithContext("frame " + std::to_string(sizes.size())));
    sizes.push_back(frame.header.n);
    dtypes.push_back(frame.header.dtype);
    num_bytes += frame.bytes.size();
    num_elements += frame.header.n;
  }
  // Before all elements are allocated on the word of the headers.
  ThrowIfError(CheckClaimedElements(num_bytes, num_elements));
  py::list decoded;
  if (sizes.empty()) return decoded;
  std::vector<SumTarget> targets;
  const py::list arrays = AllocateTargets(sizes, dtypes, &targets);
  ThreadExecutor executor = MakeExecutor(num_threads);
  ThrowIfError(WithoutGil([&] {
    return DecodeSum(view.span(), /*num_ranks=*/1, /*scale=*/1.0f, targets, &executor, {});
  }));
  for (size_t i = 0; i < sizes.size(); ++i) {
    decoded.append(py::make_tuple(DTypeName(dtypes[i]), arrays[i]));
  }
  return decoded;
}

const char* SupportName(SupportKind support) {
  switch (support) {
    case SupportKind::kIndexSection:
      return "index section";
    case SupportKind::kEverything:
      return "everything";
    case SupportKind::kJoint:
      return "joint";
    case SupportKind::kSeeded:
      return "seeded";
    case SupportKind::kRows:
      return "rows";
  }
  return "unknown";
}

// The registered name of an id off the wire; None if the frame uses no such codec.
template <typename Interface>
py::object NameOfId(bool used, uint8_t id) {
  if (!used) return py::none();
  const auto* row = FindById<Interface>(id);
  return py::str(row == nullptr ? "unknown id " + std::to_string(id) : row->name);
}

py::list Inspect(const py::object& data) {
  const BytesView view(data);
  py::list descriptions;
  for (const Frame& frame : ReadFrames(view.span())) {
    const FrameHeader& header = frame.header;
    const bool is_joint = header.support == SupportKind::kJoint;
    const bool is_rows = header.support == SupportKind::kRows;
    const bool has_index = is_rows || header.support == SupportKind::kIndexSection;
    const uint32_t width = RowWidth(frame);
    descriptions.append(
        py::dict("num_bytes"_a = frame.bytes.size(), "header_bytes"_a = kFrameHeaderBytes,
                 "index_bytes"_a = frame.sections.indices.size(),
                 "value_bytes"_a = frame.sections.values.size(), "version"_a = int{kFrameVersion},
                 "n"_a = header.n, "k"_a = header.k,
                 "width"_a = width > 0 ? py::object(py::int_(width)) : py::none(),
                 "dtype"_a = DTypeName(header.dtype), "support"_a = SupportName(header.support),
                 "nonfinite"_a = header.nonfinite,
                 "index"_a = NameOfId<IndexCodec>(has_index, header.index_id),
                 "value"_a = NameOfId<ValueCodec>(!is_joint, header.value_id),
                 "joint"_a = NameOfId<SparseCodec>(is_joint, header.value_id),
                 "seed"_a = header.seed, "checksum_ok"_a = VerifyChecksum(frame).ok()));
  }
  return descriptions;
}

}  // namespace

void DefineFrameBindings(py::module_& module) {
  module.def(
      "encode", &Encode, "gradient"_a, "dtype_name"_a, "spec"_a, "seed"_a = 0,
      "slots"_a = py::list(), "num_threads"_a = 0, "width"_a = 0,
      "Encodes a gradient, and returns one frame as bytes. `gradient` is 1-D and C-contiguous: "
      "float32 for 'float32', uint16 bit patterns for 'float16' and 'bfloat16'. `slots` are "
      "the memory's vectors, writable float32 of n elements, updated in place. The bytes do "
      "not depend on `num_threads`; 0 means all cores. `width` is the last dimension of the "
      "tensor, 0 for a vector.");
  module.def(
      "decode", &Decode, "data"_a, "num_threads"_a = 0,
      "Decodes a packet, any buffer, into one (dtype_name, dense array) per frame; arrays are 1-D, "
      "float32 or uint16 bit patterns. Elements that were not sent are 0; a non-finite frame is "
      "NaN everywhere.");
  module.def("decode_sum", &DecodeSumBinding, "packets"_a, "num_ranks"_a, "scale"_a, "sizes"_a,
             "dtype_names"_a, "num_threads"_a = 0,
             "Decodes the packets of all ranks, laid end to end, and returns ([scale * sum over "
             "ranks of each tensor], [bytes of each tensor over all ranks]). `sizes` are the "
             "tensors' n; arrays are 1-D, float32 or uint16 bit patterns.");
  module.def(
      "inspect", &Inspect, "data"_a,
      "Describes each frame of a packet without decoding it: a dict of num_bytes, "
      "header_bytes, index_bytes, value_bytes, version, n, k, width (elements of a row, or None), "
      "dtype, support ('index section', 'everything', 'joint', 'seeded' or 'rows'), nonfinite, "
      "index, value and joint (names or None), seed and checksum_ok.");
}

}  // namespace tfcompress
