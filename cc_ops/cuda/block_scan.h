// The prefix sums of scan.h, for kernels.
#ifndef TFCOMPRESS_CUDA_BLOCK_SCAN_H_
#define TFCOMPRESS_CUDA_BLOCK_SCAN_H_

#include <cstdint>

#include "cuda/launch.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {

// Counts that a thread sums at once.
inline constexpr uint32_t kScanRows = 8;

// ScanCounts by the threads of one block, with a word of `warp_sums` for each of its warps.
template <typename T>
__device__ void ScanByBlock(T* counts, uint64_t num_counts, T* warp_sums) {
  const uint32_t warp = threadIdx.x / kWarpThreads;
  const uint32_t num_warps = blockDim.x / kWarpThreads;
  T sum = 0;
  for (uint64_t begin = 0; begin <= num_counts; begin += uint64_t{blockDim.x} * kScanRows) {
    const uint64_t first = begin + warp * kWarpThreads * kScanRows + ThisLane();
    T before[kScanRows];
    for (uint32_t row = 0; row < kScanRows; ++row) {
      const uint64_t i = first + row * kWarpThreads;
      before[row] = i < num_counts ? counts[i] : 0;
    }
    T of_warp = 0;
    for (T& own : before) {
      const T up_to_own = of_warp + InclusiveSum(own);
      own = up_to_own - own;
      of_warp = __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
    if (ThisLane() == 0) warp_sums[warp] = of_warp;
    __syncthreads();
    T before_warp = sum;
    for (uint32_t other = 0; other < num_warps; ++other) {
      if (other == warp) before_warp = sum;
      sum += warp_sums[other];
    }
    for (uint32_t row = 0; row < kScanRows; ++row) {
      const uint64_t i = first + row * kWarpThreads;
      if (i <= num_counts) counts[i] = before_warp + before[row];
    }
    __syncthreads();
  }
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOCK_SCAN_H_
