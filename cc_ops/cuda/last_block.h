// Work for the block of a launch that comes to its end last: it needs no launch of its own.
#ifndef TFCOMPRESS_CUDA_LAST_BLOCK_H_
#define TFCOMPRESS_CUDA_LAST_BLOCK_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

// Called by all threads of num_blocks blocks, once: returns to those of one block, after all have
// called, true. They then see what all blocks have written before. *num_done_dev is 0 before, and
// belongs to these blocks; `shared` is any word of the block.
__device__ inline bool IsLastBlock(uint32_t num_blocks, uint32_t* num_done_dev, uint32_t* shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *shared = atomicAdd(num_done_dev, 1u);
  __syncthreads();
  __threadfence();
  return *shared == num_blocks - 1;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LAST_BLOCK_H_
