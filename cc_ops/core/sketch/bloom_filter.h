// Bloom filter over uint32 keys: the data structure of DeepReduce section 4, without its wire form.
//
// Double hashing derives all probes from two hashes: probe i of a key reads the bit
// FastRange32(h1 + i * h2, num_bits), where h1 and h2, made odd, are the low and the high half of
// HashKey(key, seed) and the sum is modulo 2^32.
#ifndef TFCOMPRESS_CORE_SKETCH_BLOOM_FILTER_H_
#define TFCOMPRESS_CORE_SKETCH_BLOOM_FILTER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/bit_io.h"
#include "core/hash.h"
#include "core/span.h"

namespace tfcompress {

inline constexpr int kMaxBloomHashes = 32;

struct BloomShape {
  uint32_t num_bits;  // At least 1.
  int num_hashes;     // In [1, kMaxBloomHashes].

  TFC_HOST_DEVICE uint64_t num_bytes() const { return PackedBytes(num_bits, 1); }
  // Whether a BloomRate of so many hashes has this shape for `num_keys` keys or, with
  // `or_fewer_keys`, for at most as many: its halvings of the rate round to its hashes.
  TFC_HOST_DEVICE bool IsFor(uint64_t num_keys, bool or_fewer_keys) const {
    constexpr double kBitsPerHalving = 0x1.71547652b82fep0;  // 1 / ln 2
    constexpr double kMaxBits = 4294967295.0;
    const double per_halving = static_cast<double>(num_keys) * kBitsPerHalving;
    const double least = num_hashes == 1 ? 0 : per_halving * (num_hashes - 0.5);
    const double most = per_halving * (num_hashes + 0.5);
    // A bit for what rounding does to either side.
    return num_bits - 1.0 <= std::ceil(most) &&
           (or_fewer_keys || num_bits + 1.0 >= (least < kMaxBits ? least : kMaxBits));
  }
};

// A false positive rate, with numbers derived from it.
class BloomRate {
 public:
  // `fpr` in (0, 1).
  explicit BloomRate(double fpr);

  int num_hashes() const { return num_hashes_; }
  // The smallest filter for `num_keys` keys: 1 / ln 2 bits for each key and halving of the rate, at
  // most 2^32 - 1 bits.
  TFC_HOST_DEVICE BloomShape ShapeFor(uint64_t num_keys) const {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    constexpr double kMaxBits = 4294967295.0;
    const double num_bits = std::ceil(static_cast<double>(num_keys) * halvings_ / kLn2);
    const double at_least_1 = num_bits > 1 ? num_bits : 1;
    return {static_cast<uint32_t>(at_least_1 < kMaxBits ? at_least_1 : kMaxBits), num_hashes_};
  }

 private:
  double halvings_;
  int num_hashes_;
};

// A view of a filter's bits, bit b being bit b % 8 of byte b / 8.
class BloomFilter {
 public:
  // `bits` holds shape.num_bytes() bytes and outlives the filter.
  BloomFilter(BloomShape shape, uint64_t seed, const unsigned char* bits)
      : shape_(shape), seed_(seed), hash_of_(seed), bits_(bits) {}

  // Adds `keys` to the filter in `bits`; the bits of an empty filter are zero.
  static void Insert(BloomShape shape, uint64_t seed, Span<const uint32_t> keys,
                     unsigned char* bits);

  const BloomShape& shape() const { return shape_; }

  // The bit that probe i of a key with this HashKey(key, seed) reads.
  TFC_HOST_DEVICE static uint32_t Position(uint64_t hash, uint32_t i, uint32_t num_bits) {
    return FastRange32(static_cast<uint32_t>(hash) + i * (static_cast<uint32_t>(hash >> 32) | 1),
                       num_bits);
  }
  // The bit that probe i of `key` reads, for 0 <= i < num_hashes.
  uint32_t Position(uint32_t key, int i) const {
    return Position(hash_of_(key), static_cast<uint32_t>(i), shape_.num_bits);
  }
  // Whether is_match(bit) is true for a bit that the probes of `key` read.
  template <typename IsMatch>
  bool AnyPosition(uint32_t key, const IsMatch& is_match) const {
    const uint64_t hash = hash_of_(key);
    for (int i = 0; i < shape_.num_hashes; ++i) {
      if (is_match(Position(hash, static_cast<uint32_t>(i), shape_.num_bits))) return true;
    }
    return false;
  }
  // Lists the distinct bits that the probes of `key` read, in the order of the probes, and returns
  // their number.
  int DistinctPositions(uint32_t key, uint32_t (&positions)[kMaxBloomHashes]) const {
    constexpr int kProbesAtATime = 8;
    const uint64_t hash = hash_of_(key);
    const auto step = static_cast<uint32_t>(hash >> 32) | 1;
    uint32_t nearest = 0xFFFFFFFF;
    for (int first = 0; first < shape_.num_hashes; first += kProbesAtATime) {
      for (int i = first; i < first + kProbesAtATime; ++i) {
        positions[i] = Position(hash, static_cast<uint32_t>(i), shape_.num_bits);
        // How far its sum is from that of probe 0, less one, which leaves probe 0 itself out.
        const uint32_t distance = static_cast<uint32_t>(i) * step;
        nearest = std::min(nearest, std::min(distance, 0 - distance) - 1);
      }
    }
    // Two probes read the same bit only if their sums differ by less than 2^32 / num_bits.
    if (nearest >= 0xFFFFFFFF / shape_.num_bits) return shape_.num_hashes;
    int count = 1;
    for (int i = 1; i < shape_.num_hashes; ++i) {
      if (std::find(positions, positions + count, positions[i]) == positions + count)
        positions[count++] = positions[i];
    }
    return count;
  }

  // Appends the keys of [begin, end) that the filter contains, ascending.
  void AppendContained(uint32_t begin, uint32_t end, std::vector<uint32_t>* keys) const;

 private:
  // Moves the keys that pass two probes from `first_probe` on to the front, and counts them: at
  // most kChunkKeys.
  size_t KeepPassing(int first_probe, uint32_t* keys, size_t num_keys) const;

  BloomShape shape_;
  uint64_t seed_;
  SeededHash hash_of_;
  const unsigned char* bits_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_BLOOM_FILTER_H_
