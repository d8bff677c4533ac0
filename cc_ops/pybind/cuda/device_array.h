// Arrays in device memory, as CuPy, PyTorch and Numba offer them: by `__cuda_array_interface__`,
// version 2 or 3.
#ifndef TFCOMPRESS_PYBIND_CUDA_DEVICE_ARRAY_H_
#define TFCOMPRESS_PYBIND_CUDA_DEVICE_ARRAY_H_

#include <cuda_runtime.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"

namespace tfcompress {

// Borrowed: valid as long as the Python object.
struct DeviceArray {
  std::string name;  // For messages.
  void* data_dev;
  DType dtype;
  uint64_t n;
  int device;
  std::optional<cudaStream_t> stream;  // That its content is written on, where that may be pending.
};

enum class Access { kRead, kWrite };

// Throws ValueError unless the object is a C-contiguous array in device memory (TypeError where it
// does not say), of float32 or float16, or of two bytes an element where `dtype_name` says what
// they are; writable for Access::kWrite. An empty `dtype_name` takes the array's own type.
DeviceArray ToDeviceArray(const std::string& name, const pybind11::object& object,
                          const std::string& dtype_name, Access access);

// A stream as the interface numbers them: 1 is the legacy default stream, 2 the one of each thread,
// others are pointers. Throws ValueError for 0, which the interface forbids.
cudaStream_t ToStream(uintptr_t number);

// Waits for what may be pending on streams of the arrays that are not `stream`.
Status WaitForWriters(const std::vector<DeviceArray>& arrays, cudaStream_t stream);

// Makes the arrays' device the thread's current one, for its own lifetime. Throws ValueError where
// they are on several.
class ArraysDevice {
 public:
  explicit ArraysDevice(const std::vector<DeviceArray>& arrays);
  ArraysDevice(const ArraysDevice&) = delete;
  ArraysDevice& operator=(const ArraysDevice&) = delete;
  ~ArraysDevice();

 private:
  int before_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_PYBIND_CUDA_DEVICE_ARRAY_H_
