#include "core/sketch/sign_ranks.h"

#include <numeric>

#include "core/simd.h"

namespace tfcompress {

SignRanks::SignRanks(Span<const float> values, Executor* executor)
    : values_(values), num_negative_((values.size() + kGroup - 1) / kGroup) {
  static_assert(kBlockElements % kGroup == 0);
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    Vectorized([=, x = values.data(), counts = num_negative_.data()] {
      int64_t i = begin;
      for (; i + static_cast<int64_t>(kGroup) <= end; i += kGroup) {
        int32_t count = 0;  // GCC 12 for aarch64 counts wrongly, at -O3, in an unsigned number.
        for (size_t j = 0; j < kGroup; ++j) count += IsNegative(x[i + j]);
        counts[i / kGroup] = static_cast<uint8_t>(count);
      }
      for (; i < end; ++i) counts[i / kGroup] += static_cast<uint8_t>(IsNegative(x[i]));
    });
  });
  counts_[1] = std::accumulate(num_negative_.begin(), num_negative_.end(), size_t{0});
  counts_[0] = values.size() - counts_[1];
}

uint32_t SignRanks::PositionOf(const Place& place, uint32_t sign) const {
  // Counts the positions up to the one with this rank, without a branch on a sign.
  uint64_t num_seen = 0;
  size_t position = place.group * kGroup;
  for (size_t i = position, end = i + GroupSize(place.group); i < end; ++i) {
    num_seen += IsNegative(values_[i]) == (sign != 0);
    position += num_seen <= place.rank;
  }
  return static_cast<uint32_t>(position);
}

}  // namespace tfcompress
