// The only mixer and the only random generator of the package. Both are pure functions of their
// arguments and part of the wire format (FORMAT.md, "Hashing"): changing a constant changes bytes.
// The standard library's engines and distributions are never used, since they differ by platform.
#ifndef TFCOMPRESS_CORE_HASH_H_
#define TFCOMPRESS_CORE_HASH_H_

#include <cstdint>

#include "core/host_device.h"

namespace tfcompress {

// Bijective 64-bit finaliser (splitmix64's constants): every input bit reaches every output bit.
TFC_HOST_DEVICE inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  x ^= x >> 31;
  return x;
}

inline constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15u;

// The hash function of a seed. The part that depends only on the seed is computed once, so that
// each key costs one call of the mixer. Different seeds give functions that are independent in
// practice.
class SeededHash {
 public:
  SeededHash() = default;
  TFC_HOST_DEVICE explicit SeededHash(uint64_t seed) : offset_(Mix64(seed + kGoldenGamma)) {}
  TFC_HOST_DEVICE uint64_t operator()(uint64_t key) const {
    return Mix64(key * kGoldenGamma + offset_);
  }

 private:
  uint64_t offset_;
};

TFC_HOST_DEVICE inline uint64_t HashKey(uint64_t key, uint64_t seed) {
  return SeededHash(seed)(key);
}

// Maps 32 uniform bits to [0, range) without division.
TFC_HOST_DEVICE inline uint32_t FastRange32(uint32_t bits, uint32_t range) {
  return static_cast<uint32_t>((static_cast<uint64_t>(bits) * range) >> 32);
}

// Counter-based generator (splitmix64): state is the seed and the number of draws.
class Random {
 public:
  // Starts in the state after `num_draws` draws.
  TFC_HOST_DEVICE explicit Random(uint64_t seed, uint64_t num_draws = 0)
      : state_(seed + num_draws * kGoldenGamma) {}

  TFC_HOST_DEVICE uint64_t Next64() { return Mix64(state_ += kGoldenGamma); }
  TFC_HOST_DEVICE uint32_t Next32() { return static_cast<uint32_t>(Next64() >> 32); }
  // Uniform in [0, range); range > 0. Bias below range / 2^32.
  TFC_HOST_DEVICE uint32_t Below(uint32_t range) { return FastRange32(Next32(), range); }
  // Uniform in [0, 1) with 24 bits, exact in float.
  float NextFloat() { return static_cast<float>(Next64() >> 40) * (1.0f / 16777216.0f); }

 private:
  uint64_t state_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_HASH_H_
