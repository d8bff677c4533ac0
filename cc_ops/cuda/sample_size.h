// How a sample of a vector tells a bound of magnitudes that is met by its k largest elements, and
// by few others.
#ifndef TFCOMPRESS_CUDA_SAMPLE_SIZE_H_
#define TFCOMPRESS_CUDA_SAMPLE_SIZE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tfcompress {
namespace device {

inline constexpr uint32_t kSampleSize = 8192;

struct SampleSize {
  uint32_t rank = 0;      // Elements of the sample that meet it; 0: there is no sample, and all
                          // elements but zeros meet the bound.
  uint32_t capacity = 0;  // Room for elements that meet it.
};

// A sample of kSampleSize elements of n; a vector of no more needs none. How many of the k largest
// it holds has the deviation of a Poisson distribution at most: that they are more than the rank,
// or those above the bound more than there is room for, has a probability of some 3e-5 each.
inline SampleSize SampleSizeOf(uint32_t n, uint32_t k) {
  if (n <= kSampleSize) return {0, n};
  const auto more = [](double count) { return count + 4 * std::sqrt(count) + 4; };
  const double elements_per_sample = static_cast<double>(n) / kSampleSize;
  const double rank = more(k / elements_per_sample);
  const double room = more(rank) * elements_per_sample;
  return {static_cast<uint32_t>(rank), static_cast<uint32_t>(std::min<double>(room, n))};
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SAMPLE_SIZE_H_
