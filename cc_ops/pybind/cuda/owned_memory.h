// Device memory that one call allocates and frees.
#ifndef TFCOMPRESS_PYBIND_CUDA_OWNED_MEMORY_H_
#define TFCOMPRESS_PYBIND_CUDA_OWNED_MEMORY_H_

#include <cuda_runtime.h>

#include "core/status.h"
#include "cuda/cuda_status.h"
#include "cuda/workspace.h"

namespace tfcompress {

class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  // Waits for the device, so that nothing uses the memory any more.
  ~OwnedMemory() { cudaFree(buffer_.data_dev); }

  // Once; without content.
  Status Allocate(size_t num_bytes) {
    if (num_bytes == 0) return OkStatus();
    TFC_RETURN_IF_CUDA_ERROR(cudaMalloc(&buffer_.data_dev, num_bytes));
    buffer_.num_bytes = num_bytes;
    return OkStatus();
  }

  const device::DeviceBuffer& buffer() const { return buffer_; }

 private:
  device::DeviceBuffer buffer_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_PYBIND_CUDA_OWNED_MEMORY_H_
