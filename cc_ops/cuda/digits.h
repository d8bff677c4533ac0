// The digits of magnitudes. Counts of three, from the high digit to the low, determine the k-th
// largest magnitude of 31 bits.
#ifndef TFCOMPRESS_CUDA_DIGITS_H_
#define TFCOMPRESS_CUDA_DIGITS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "cuda/launch.h"
#include "cuda/select_counts.h"

namespace tfcompress {
namespace device {

struct Digit {
  int shift;
  int num_bits;

  TFC_HOST_DEVICE uint32_t Of(uint32_t magnitude) const {
    return magnitude >> shift & ((1u << num_bits) - 1);
  }
  // The bits above the digit.
  TFC_HOST_DEVICE uint32_t PrefixOf(uint32_t magnitude) const {
    return magnitude >> (shift + num_bits);
  }
};

TFC_HOST_DEVICE inline Digit DigitAt(int number) {
  return number == 0 ? Digit{20, 11} : number == 1 ? Digit{10, 10} : Digit{0, 10};
}

// Counts the bucket of every lane that has one. Equal values, zeros above all, put most lanes of a
// warp into one bucket: the lanes that share the first lane's bucket are counted at once.
__device__ inline void CountBuckets(uint32_t bucket, bool has_one, uint32_t* counts) {
  const uint32_t lanes = __ballot_sync(kAllLanes, has_one);
  if (lanes == 0) return;
  const int first = __ffs(static_cast<int>(lanes)) - 1;
  const uint32_t first_bucket = __shfl_sync(kAllLanes, bucket, first);
  const bool shared = has_one && bucket == first_bucket;
  const uint32_t num_shared = __popc(__ballot_sync(kAllLanes, shared));
  if (static_cast<int>(ThisLane()) == first) atomicAdd(&counts[bucket], num_shared);
  if (has_one && !shared) atomicAdd(&counts[bucket], 1u);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DIGITS_H_
