// Rice codes of run lengths and the choice of their parameters; shared with kernels. FORMAT.md,
// "index: rle".
#ifndef TFCOMPRESS_CORE_INDEX_RICE_H_
#define TFCOMPRESS_CORE_INDEX_RICE_H_

#include <algorithm>
#include <cstdint>

#include "core/entropy/bit_stream.h"
#include "core/entropy/code_block_size.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr int kMaxRiceBits = 31;

// The Rice code of a number x with parameter r: x >> r zeros (the unary part), then a one and the r
// low bits of x (the last part).
struct Rice {
  TFC_HOST_DEVICE Rice(uint32_t number, int r)
      : unary(number >> r),
        last(uint64_t{number & ((uint32_t{1} << r) - 1)} << 1 | 1),
        num_last(r + 1) {}

  TFC_HOST_DEVICE uint64_t length() const {
    return uint64_t{unary} + static_cast<uint64_t>(num_last);
  }
  // The code as a bit string; only for codes of at most kMaxStreamBits bits.
  uint64_t bits() const { return last << unary; }

  uint32_t unary;
  uint64_t last;
  int num_last;
};

// Returns the cheapest parameter for `count` numbers with the given sum; the least of equal ones.
// num_unary(r) returns the sum of the numbers shifted right by r. The cost is a convex function of
// the parameter, since each shift halves every number.
template <typename NumUnary>
TFC_HOST_DEVICE int CheapestRice(uint64_t count, uint64_t sum, const NumUnary& num_unary) {
  const auto cost = [&](int r) { return num_unary(r) + count * static_cast<uint64_t>(r + 1); };
  int best = 0;
  while (best < kMaxRiceBits && sum >> (best + 1) >= count) ++best;  // log2 of the mean.
  uint64_t best_cost = cost(best);
  for (int step = -1; step <= 1; step += 2) {
    while (best + step >= 0 && best + step <= kMaxRiceBits) {
      const uint64_t next_cost = cost(best + step);
      if (next_cost > best_cost || (next_cost == best_cost && step > 0)) break;
      best += step;
      best_cost = next_cost;
    }
  }
  return best;
}

// ---- The section --------------------------------------------------------------------------------

// The header before the code blocks.
struct RleHeader {
  // Whether a section of k > 0 indices may begin with this header, with num_code_bytes bytes after
  // it. A run of zeros and a run of ones take at least two bits together.
  TFC_HOST_DEVICE bool IsPossible(uint32_t k, uint64_t num_code_bytes) const {
    return num_runs > 0 && num_runs <= k && num_runs <= 4 * num_code_bytes &&
           zero_bits <= kMaxRiceBits && one_bits <= kMaxRiceBits;
  }

  uint32_t num_runs;
  uint8_t zero_bits;
  uint8_t one_bits;
};
inline constexpr uint64_t kRleHeaderBytes = 6;

// Upper bound of the bytes of k of n indices.
inline uint64_t MaxRleBytes(uint32_t n, uint32_t k) {
  if (k == 0) return 0;
  // With parameter 0, ones take at most one bit each, and zeros as well, plus one bit.
  uint64_t num_zero_bits = uint64_t{n} - k + 1;
  for (int r = 1; r <= kMaxRiceBits; ++r) {
    num_zero_bits = std::min(num_zero_bits,
                             ((uint64_t{n} - k) >> r) + uint64_t{k} * static_cast<uint64_t>(r + 1));
  }
  return kRleHeaderBytes + BytesOfBits(num_zero_bits + k) + MaxCodeBlockOverhead(k);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_INDEX_RICE_H_
