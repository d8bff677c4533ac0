// The permutation behind a seeded support. FORMAT.md, "Seeded supports".
#ifndef TFCOMPRESS_CORE_SEEDED_PERMUTATION_H_
#define TFCOMPRESS_CORE_SEEDED_PERMUTATION_H_

#include <cstdint>

#include "core/bit_io.h"
#include "core/hash.h"
#include "core/host_device.h"

namespace tfcompress {

// A permutation of [0, n): an unbalanced Feistel network over the next power of two, repeated until
// the result is below n. The power is below 2n, so this takes fewer than two rounds on average.
class SeededPermutation {
 public:
  TFC_HOST_DEVICE SeededPermutation(uint32_t n, uint64_t seed) : n_(n), seed_(seed) {
    const int num_bits = BitsFor(n);
    low_bits_ = num_bits / 2;
    high_bits_ = num_bits - low_bits_;
  }

  TFC_HOST_DEVICE uint32_t operator()(uint32_t x) const {
    do {
      x = Scramble(x);
    } while (x >= n_);
    return x;
  }

 private:
  static constexpr int kRounds = 6;

  // Every round changes one part by a function of the other, so that it is invertible; the parts
  // alternate.
  TFC_HOST_DEVICE uint32_t Scramble(uint32_t x) const {
    const uint32_t low_mask = (1u << low_bits_) - 1;
    const uint32_t high_mask = (1u << high_bits_) - 1;
    uint32_t high = x >> low_bits_;
    uint32_t low = x & low_mask;
    for (uint64_t round = 0; round < kRounds; round += 2) {
      high ^= static_cast<uint32_t>(HashKey(low, seed_ + round) >> 32) & high_mask;
      low ^= static_cast<uint32_t>(HashKey(high, seed_ + round + 1) >> 32) & low_mask;
    }
    return high << low_bits_ | low;
  }

  uint32_t n_;
  uint64_t seed_;
  int low_bits_;
  int high_bits_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SEEDED_PERMUTATION_H_
