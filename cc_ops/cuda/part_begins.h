// Parts whose items lie end to end, as many as the device has found for each.
#ifndef TFCOMPRESS_CUDA_PART_BEGINS_H_
#define TFCOMPRESS_CUDA_PART_BEGINS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/block_scan.h"
#include "cuda/launch.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// One block.
template <typename T, typename Count>
__global__ void FindBeginsKernel(const T* parts, uint64_t num_parts, Count count,
                                 uint64_t* begins) {
  __shared__ uint64_t warp_sums[kBlockWarps];
  for (uint64_t i = threadIdx.x; i < num_parts; i += kBlockThreads) begins[i] = count(parts[i]);
  __syncthreads();
  ScanByBlock(begins, num_parts, warp_sums);
}

// Sets begins_dev[i] to the sum of count(part) over the parts before part i; begins_dev[size] to
// that over all.
template <typename T, typename Count>
Status FindBegins(const Parts<T>& parts, const Count& count, uint64_t* begins_dev,
                  cudaStream_t stream) {
  return Launch("find begins", FindBeginsKernel<T, Count>, 1, kBlockThreads, stream, parts.data_dev,
                parts.size(), count, begins_dev);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PART_BEGINS_H_
