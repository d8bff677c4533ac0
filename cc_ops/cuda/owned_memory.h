// Owned device memory for callers of the library, which itself allocates nothing.
#ifndef TFCOMPRESS_CUDA_OWNED_MEMORY_H_
#define TFCOMPRESS_CUDA_OWNED_MEMORY_H_

#include <cuda_runtime.h>

#include "core/status.h"
#include "cuda/cuda_status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  // cudaFree waits for the device, so nothing uses the memory any more.
  ~OwnedMemory() { cudaFree(buffer_.data_dev); }

  // Allocates uninitialized memory. To be called once.
  Status Allocate(size_t num_bytes) {
    if (num_bytes == 0) return OkStatus();
    TFC_RETURN_IF_CUDA_ERROR(cudaMalloc(&buffer_.data_dev, num_bytes));
    buffer_.num_bytes = num_bytes;
    return OkStatus();
  }

  const DeviceBuffer& buffer() const { return buffer_; }

 private:
  DeviceBuffer buffer_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_OWNED_MEMORY_H_
