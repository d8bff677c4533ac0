// Work for the block of a launch that comes to its end last: it needs no launch of its own.
#ifndef TFCOMPRESS_CUDA_LAST_BLOCK_H_
#define TFCOMPRESS_CUDA_LAST_BLOCK_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

// All threads of num_blocks blocks call it once. It returns true in the block that calls last,
// which sees what the others wrote before. *num_done_dev counts them from 0; `shared` is any word
// of the block's shared memory.
__device__ inline bool IsLastBlock(uint32_t num_blocks, uint32_t* num_done_dev, uint32_t* shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    *shared = atomicAdd(num_done_dev, 1u);
    __threadfence();
  }
  __syncthreads();
  return *shared == num_blocks - 1;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LAST_BLOCK_H_
