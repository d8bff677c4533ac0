// Temporary device memory. The same code first measures the required size, then takes the buffers.
#ifndef TFCOMPRESS_CUDA_WORKSPACE_H_
#define TFCOMPRESS_CUDA_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace tfcompress {
namespace device {

// Device memory that the caller owns.
struct DeviceBuffer {
  void* data_dev = nullptr;
  size_t num_bytes = 0;
};

class Workspace {
 public:
  static constexpr size_t kAlignment = 256;
  // Most bytes for each element of the vectors, where a limit would be less.
  static constexpr uint64_t kMostBytesAnElement = 32;

  // Measures only: every Take returns null.
  Workspace() = default;
  // Takes from a buffer; see Check.
  explicit Workspace(void* data_dev) : data_dev_(static_cast<unsigned char*>(data_dev)) {}

  // Returns uninitialized memory for `count` elements.
  template <typename T>
  T* Take(size_t count) {
    unsigned char* taken = data_dev_ == nullptr ? nullptr : data_dev_ + num_bytes_;
    num_bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(taken);
  }
  // Bytes taken so far.
  size_t num_bytes() const { return num_bytes_; }

  // Fails with InvalidArgument unless the buffer has `num_bytes` bytes and the alignment of
  // cudaMalloc.
  static Status Check(const DeviceBuffer& buffer, size_t num_bytes) {
    if (num_bytes == 0) return OkStatus();
    if (buffer.data_dev == nullptr || buffer.num_bytes < num_bytes) {
      return InvalidArgument("the workspace needs ", num_bytes, " bytes, got ",
                             buffer.data_dev == nullptr ? 0 : buffer.num_bytes);
    }
    if (reinterpret_cast<uintptr_t>(buffer.data_dev) % kAlignment == 0) return OkStatus();
    return InvalidArgument("the workspace must be aligned to ", kAlignment, " bytes");
  }

 private:
  unsigned char* data_dev_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_WORKSPACE_H_
