// Noise for stochastic rounding: a function of the frame's seed and of a value's position, so that
// it does not depend on the order of the work.
#ifndef TFCOMPRESS_CORE_VALUE_ROUNDING_NOISE_H_
#define TFCOMPRESS_CORE_VALUE_ROUNDING_NOISE_H_

#include <cstdint>

#include "core/byte_io.h"
#include "core/hash.h"

namespace tfcompress {

class RoundingNoise {
 public:
  static constexpr int kBits = 24;

  // Distinct from all other hashes with the frame's seed, since no index is 2^64 - 1.
  TFC_HOST_DEVICE explicit RoundingNoise(uint64_t seed) : seed_(HashKey(~uint64_t{0}, seed)) {}

  // The noise of one position, uniform in [0, 2^24).
  TFC_HOST_DEVICE uint32_t At(uint64_t i) const {
    const uint64_t hash = HashOfPair(i / 2);
    return i % 2 == 0 ? OfEven(hash) : OfOdd(hash);
  }

  // Stores the noise of positions [begin, end) to `noise`, which has room for an even number;
  // `begin` is even. One hash serves two positions: both halves of it at once.
  void Fill(int64_t begin, int64_t end, uint32_t* noise) const {
    constexpr uint64_t kBoth = ((uint64_t{1} << kBits) - 1) * 0x0000000100000001;
    for (int64_t i = begin; i < end; i += 2) {
      const uint64_t hash = HashOfPair(static_cast<uint64_t>(i) / 2);
      StoreUnaligned(noise + (i - begin), hash >> (32 - kBits) & kBoth);
    }
  }

 private:
  TFC_HOST_DEVICE uint64_t HashOfPair(uint64_t pair) const { return HashKey(pair, seed_); }
  TFC_HOST_DEVICE static uint32_t OfEven(uint64_t hash) {
    return static_cast<uint32_t>(hash) >> (32 - kBits);
  }
  TFC_HOST_DEVICE static uint32_t OfOdd(uint64_t hash) {
    return static_cast<uint32_t>(hash >> (64 - kBits));
  }

  uint64_t seed_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_ROUNDING_NOISE_H_
