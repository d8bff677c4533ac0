// What the selection of the largest elements counts.
#ifndef TFCOMPRESS_CUDA_SELECT_COUNTS_H_
#define TFCOMPRESS_CUDA_SELECT_COUNTS_H_

#include <cstdint>

namespace tfcompress {
namespace device {

// Digits of a magnitude (digits.h), and the most values that one has.
inline constexpr int kNumDigits = 3;
inline constexpr uint32_t kMaxBuckets = 1u << 11;

// What blocks count of the elements of a vector, and how many blocks have; 0 before.
struct SelectCounts {
  uint32_t buckets[kNumDigits][kMaxBuckets];  // Of each digit, those with each value.
  uint32_t num_counted[kNumDigits];
  uint32_t num_counted_kept;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SELECT_COUNTS_H_
