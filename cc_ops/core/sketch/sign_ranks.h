// Where the elements of a sign are among all of them, without a list: counts of small groups, which
// are a sixty-fourth of the bytes of the values.
#ifndef TFCOMPRESS_CORE_SKETCH_SIGN_RANKS_H_
#define TFCOMPRESS_CORE_SKETCH_SIGN_RANKS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/float_order.h"
#include "core/span.h"

namespace tfcompress {

// Elements of sign 0 are not negative (-0 counts as 0), those of sign 1 are. The rank of an element
// is the number of those of its sign before it.
class SignRanks {
 public:
  // Borrows the values.
  SignRanks(Span<const float> values, Executor* executor);

  size_t Count(uint32_t sign) const { return counts_[sign]; }

  // Positions of the elements of `sign` with the ranks rank_of(0) < ... < rank_of(num_ranks - 1).
  template <typename RankOf>
  std::vector<uint32_t> Positions(uint32_t sign, size_t num_ranks, const RankOf& rank_of) const {
    std::vector<uint32_t> positions(num_ranks);
    size_t group = 0;
    uint64_t num_before = 0;
    Place places[kAhead];
    for (size_t begin = 0; begin < num_ranks; begin += kAhead) {
      const size_t count = std::min(kAhead, num_ranks - begin);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t rank = rank_of(begin + i);
        for (; num_before + CountIn(group, sign) <= rank; ++group)
          num_before += CountIn(group, sign);
        places[i] = {group, rank - num_before};
        __builtin_prefetch(values_.data() + group * kGroup);
      }
      for (size_t i = 0; i < count; ++i) positions[begin + i] = PositionOf(places[i], sign);
    }
    return positions;
  }

 private:
  static constexpr size_t kGroup = 16;  // A cache line of values.
  static constexpr size_t kAhead = 64;  // Groups that are loaded at a time.

  size_t GroupSize(size_t group) const { return std::min(kGroup, values_.size() - group * kGroup); }
  size_t CountIn(size_t group, uint32_t sign) const {
    return sign == 0 ? GroupSize(group) - num_negative_[group] : num_negative_[group];
  }
  // An element of a sign, by its rank in a group.
  struct Place {
    size_t group;
    uint64_t rank;
  };
  uint32_t PositionOf(const Place& place, uint32_t sign) const;

  Span<const float> values_;
  std::vector<uint8_t> num_negative_;
  std::array<size_t, kNumSigns> counts_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_SIGN_RANKS_H_
