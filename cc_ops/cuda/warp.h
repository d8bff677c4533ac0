// Collective operations of the lanes of a warp.
#ifndef TFCOMPRESS_CUDA_WARP_H_
#define TFCOMPRESS_CUDA_WARP_H_

#include <cstdint>

#include "cuda/launch.h"

namespace tfcompress {
namespace device {

// Mask of the lanes before this one.
__device__ inline uint32_t LanesBefore() { return (1u << ThisLane()) - 1; }

// Sum over this lane and those before it, modulo 2^bits.
template <typename T>
__device__ T InclusiveSum(T value) {
  for (unsigned delta = 1; delta < kWarpThreads; delta *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, delta);
    if (ThisLane() >= delta) value += before;
  }
  return value;
}

// Sum over all lanes, returned to all lanes.
template <typename T>
__device__ T SumOfLanes(T value) {
  for (int lanes = 1; lanes < static_cast<int>(kWarpThreads); lanes *= 2)
    value += __shfl_xor_sync(kAllLanes, value, lanes);
  return value;
}
// Largest of each `num_lanes` lanes, a power of two.
__device__ inline uint32_t MaxOfLanes(uint32_t value, uint32_t num_lanes = kWarpThreads) {
  for (uint32_t lanes = 1; lanes < num_lanes; lanes *= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, value, static_cast<int>(lanes));
    if (other > value) value = other;
  }
  return value;
}
__device__ inline uint32_t XorOfLanes(uint32_t value) {
  for (int lanes = 1; lanes < static_cast<int>(kWarpThreads); lanes *= 2)
    value ^= __shfl_xor_sync(kAllLanes, value, lanes);
  return value;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_WARP_H_
