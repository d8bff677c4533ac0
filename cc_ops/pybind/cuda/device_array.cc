#include "pybind/cuda/device_array.h"

#include <algorithm>

#include "cuda/cuda_status.h"
#include "pybind/conversion.h"

namespace tfcompress {
namespace {

namespace py = pybind11;

constexpr const char* kInterface = "__cuda_array_interface__";

void ThrowIfCudaError(cudaError_t error, const char* what) {
  ThrowIfError(device::FromCuda(error, what));
}

// Looks up a key; None if it is missing.
py::object Optional(const py::dict& interface, const char* key) {
  return interface.contains(key) ? py::object(interface[key]) : py::none();
}

DType DTypeOf(const std::string& name, const std::string& typestr, const std::string& dtype_name) {
  const std::string type = typestr.substr(typestr.empty() ? 0 : 1);  // Without the byte order.
  const bool is_big_endian = !typestr.empty() && typestr[0] == '>';
  if (!is_big_endian) {
    const bool is_any = dtype_name.empty();
    if (type == "f4" && (is_any || dtype_name == "float32")) return DType::kFloat32;
    if (type == "f2" && (is_any || dtype_name == "float16")) return DType::kFloat16;
    const bool is_bits = type == "V2" || type == "u2" || type == "i2";
    if (is_bits && (dtype_name == "float16" || dtype_name == "bfloat16"))
      return ToDType(dtype_name);
  }
  throw py::value_error(name + ": elements of type '" + typestr + "'" +
                        (dtype_name.empty() ? "" : " are not " + dtype_name) +
                        "; what is compressed is float32 ('<f4'), float16 ('<f2'), and with "
                        "dtype=\"bfloat16\" two bytes ('<V2', '<u2', '<i2')");
}

uint64_t NumElements(const py::tuple& shape) {
  uint64_t n = 1;
  for (const py::handle& size : shape) n *= size.cast<uint64_t>();
  return n;
}

bool IsContiguous(const py::tuple& shape, const py::object& strides, int64_t num_item_bytes) {
  if (strides.is_none()) return true;
  const auto steps = strides.cast<py::tuple>();
  if (steps.size() != shape.size()) return false;
  int64_t expected = num_item_bytes;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto size = shape[i].cast<int64_t>();
    if (size == 0) return true;
    if (size != 1 && steps[i].cast<int64_t>() != expected) return false;
    expected *= size;
  }
  return true;
}

int DeviceOf(const std::string& name, const void* pointer) {
  cudaPointerAttributes attributes{};
  ThrowIfCudaError(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged)
    return attributes.device;
  throw py::value_error(
      name + " is in host memory: use tfcompress.encode, or the functions of tfcompress.ops");
}

int CurrentDevice() {
  int current = 0;
  ThrowIfCudaError(cudaGetDevice(&current), "cudaGetDevice");
  return current;
}

// The first array with elements: an empty one is on no device. Null if all are empty.
const DeviceArray* FirstWithElements(const std::vector<DeviceArray>& arrays) {
  const auto found = std::find_if(arrays.begin(), arrays.end(),
                                  [](const DeviceArray& array) { return array.n > 0; });
  return found == arrays.end() ? nullptr : &*found;
}

}  // namespace

DeviceArray ToDeviceArray(const std::string& name, const py::object& object,
                          const std::string& dtype_name, Access access) {
  if (!py::hasattr(object, kInterface)) {
    throw py::type_error(name + " must be an array on a GPU, with " + kInterface + ", got " +
                         py::str(py::type::of(object).attr("__name__")).cast<std::string>());
  }
  const py::dict interface = object.attr(kInterface);
  const py::tuple shape = interface["shape"];
  const py::tuple data = interface["data"];
  DeviceArray array;
  array.name = name;
  array.dtype = DTypeOf(name, interface["typestr"].cast<std::string>(), dtype_name);
  array.n = NumElements(shape);
  const auto address = data[0].cast<uintptr_t>();
  array.data_dev = reinterpret_cast<void*>(address);
  // A kernel would fault, after which the process could not use the GPU any more.
  if (array.n > 0 && address % DTypeBytes(array.dtype) != 0)
    throw py::value_error(name + " is not aligned to its elements: copy it");
  if (!IsContiguous(shape, Optional(interface, "strides"), DTypeBytes(array.dtype)))
    throw py::value_error(name + " is not C-contiguous: copy it to a C-contiguous array");
  if (!Optional(interface, "mask").is_none())
    throw py::value_error(name + " has a mask, which is not supported: pass plain data");
  if (access == Access::kWrite && data[1].cast<bool>())
    throw py::value_error(name + " is read-only");
  if (array.n > 0) array.device = DeviceOf(name, array.data_dev);
  array.names_streams = interface.contains("stream");
  const py::object stream = Optional(interface, "stream");
  if (!stream.is_none()) array.stream = ToStream(stream.cast<uintptr_t>());
  return array;
}

cudaStream_t ToStream(uintptr_t number) {
  constexpr uintptr_t kForbidden = 0, kLegacy = 1;
  if (number == kForbidden) {
    throw py::value_error(
        "stream 0 could be either default stream: 1 is the legacy one, 2 the one "
        "of each thread");
  }
  return number == kLegacy ? nullptr : reinterpret_cast<cudaStream_t>(number);
}

Status WaitForWriters(const std::vector<DeviceArray>& arrays, std::optional<cudaStream_t> given,
                      cudaStream_t* stream) {
  const DeviceArray* const first = FirstWithElements(arrays);
  const auto named = first == nullptr ? std::nullopt : first->stream;
  *stream = given.value_or(named.value_or(nullptr));
  const auto names_none = [](const DeviceArray& array) { return !array.names_streams; };
  if (!given.has_value() && std::any_of(arrays.begin(), arrays.end(), names_none)) {
    TFC_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
    return OkStatus();
  }
  for (const DeviceArray& array : arrays) {
    if (array.stream.has_value() && *array.stream != *stream)
      TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(*array.stream));
  }
  return OkStatus();
}

ArraysDevice::ArraysDevice(const std::vector<DeviceArray>& arrays) : before_(CurrentDevice()) {
  const DeviceArray* const first = FirstWithElements(arrays);
  if (first == nullptr) return;
  for (const DeviceArray& array : arrays) {
    if (array.n > 0 && array.device != first->device) {
      throw py::value_error(array.name + " is on GPU " + std::to_string(array.device) + ", " +
                            first->name + " on GPU " + std::to_string(first->device));
    }
  }
  ThrowIfCudaError(cudaSetDevice(first->device), "cudaSetDevice");
}

ArraysDevice::~ArraysDevice() { cudaSetDevice(before_); }

}  // namespace tfcompress
