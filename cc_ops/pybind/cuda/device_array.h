// Arrays in device memory, as CuPy, PyTorch and Numba offer them through
// `__cuda_array_interface__`, version 2 or 3.
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
  int device = 0;                      // Of its elements; of no meaning if there are none.
  std::optional<cudaStream_t> stream;  // Stream of pending writes, if the array names one.
  bool names_streams;                  // Whether it would: version 2, PyTorch's, has no such key.
};

enum class Access { kRead, kWrite };

// Throws TypeError unless the object has the interface, and ValueError unless it is a C-contiguous
// array in device memory, writable for Access::kWrite, of float32 or float16, or of two bytes per
// element whose type `dtype_name` names. An empty `dtype_name` means the array's own type.
DeviceArray ToDeviceArray(const std::string& name, const pybind11::object& object,
                          const std::string& dtype_name, Access access);

// Converts a stream number of the interface: 1 is the legacy default stream, 2 the per-thread one,
// others are pointers. Throws ValueError for 0, which the interface forbids.
cudaStream_t ToStream(uintptr_t number);

// Sets `stream` to where the work goes: to the given stream, which has all pending writes of arrays
// that name none, else to that of the first array with elements, or the legacy default stream.
// Waits for pending writes elsewhere: for other streams that arrays name, and, without a given one,
// for the whole device where an array cannot name any.
Status WaitForWriters(const std::vector<DeviceArray>& arrays, std::optional<cudaStream_t> given,
                      cudaStream_t* stream);

// Makes the arrays' device the thread's current one, for its own lifetime: that of the elements,
// since an empty array is on none. Throws ValueError if the arrays are on several devices.
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
