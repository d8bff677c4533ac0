// Memory of the host that tests and the benchmark own, to which a stream copies without making
// anyone wait, and which kernels may use.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_PINNED_MEMORY_H_
#define TFCOMPRESS_CC_TESTS_CUDA_PINNED_MEMORY_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "core/status.h"
#include "cuda/cuda_status.h"

namespace tfcompress {
namespace device {

class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { cudaFreeHost(data_); }

  // To be called once.
  Status Allocate(size_t num_bytes) {
    return FromCuda(cudaMallocHost(&data_, num_bytes), "cudaMallocHost");
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_PINNED_MEMORY_H_
