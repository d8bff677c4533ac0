// Bloom filter over uint32 keys: the data structure of DeepReduce section 4, without its wire form.
//
// The 64 keys of a block have one hash. Probe i of key x reads the bit (start_i + x % 64) modulo
// num_bits, so that a receiver, who asks for every key, asks for 64 of them by a hash and a word a
// probe. Keys of different blocks meet in a bit once in num_bits, as with a hash for each key, and
// keys of one block never meet in the same probe: the mean rate of false positives is that of an
// ordinary filter. They come in runs where the true keys do.
//
// The starts are the low and the high halves of Mix64(HashKey(x / 64, seed) + i * gamma), for
// i = 0, 2, 4 and so on, mapped to [0, num_bits). Double hashing, an arithmetic progression of
// starts, would do for single keys; the windows of two blocks would overlap in many probes at once.
#ifndef TFCOMPRESS_CORE_SKETCH_BLOOM_FILTER_H_
#define TFCOMPRESS_CORE_SKETCH_BLOOM_FILTER_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/bit_io.h"
#include "core/hash.h"
#include "core/span.h"

namespace tfcompress {

inline constexpr int kMaxBloomHashes = 32;
inline constexpr uint32_t kBloomBlockKeys = 64;
// The bits of a block in one probe are different bits.
inline constexpr uint32_t kMinBloomBits = kBloomBlockKeys;

struct BloomShape {
  uint32_t num_bits;  // At least kMinBloomBits.
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
    return (num_bits == kMinBloomBits || num_bits - 1.0 <= std::ceil(most)) &&
           (or_fewer_keys || num_bits + 1.0 >= (least < kMaxBits ? least : kMaxBits));
  }
};

// A false positive rate, with numbers derived from it.
class BloomRate {
 public:
  // `fpr` in (0, 1).
  explicit BloomRate(double fpr);

  // The smallest filter for `num_keys` keys: 1 / ln 2 bits for each key and halving of the rate, at
  // least kMinBloomBits and at most 2^32 - 1 bits.
  TFC_HOST_DEVICE BloomShape ShapeFor(uint64_t num_keys) const {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    constexpr double kMaxBits = 4294967295.0;
    const double num_bits = std::ceil(static_cast<double>(num_keys) * halvings_ / kLn2);
    const double at_least = num_bits > kMinBloomBits ? num_bits : kMinBloomBits;
    return {static_cast<uint32_t>(at_least < kMaxBits ? at_least : kMaxBits), num_hashes_};
  }

 private:
  double halvings_;
  int num_hashes_;
};

// Calls visit(start) for the probes of the block with this HashKey(block, seed), until it returns
// false.
template <typename Visit>
TFC_HOST_DEVICE void VisitBloomStarts(uint64_t hash, const BloomShape& shape, const Visit& visit) {
  for (int i = 0; i < shape.num_hashes; i += 2) {
    const uint64_t pair = Mix64(hash + static_cast<uint64_t>(i) * kGoldenGamma);
    if (!visit(FastRange32(static_cast<uint32_t>(pair), shape.num_bits))) return;
    if (i + 1 == shape.num_hashes) return;
    if (!visit(FastRange32(static_cast<uint32_t>(pair >> 32), shape.num_bits))) return;
  }
}

// The bit that the probe from `start` on reads for a key.
TFC_HOST_DEVICE inline uint32_t BloomBit(uint32_t start, uint32_t key, uint32_t num_bits) {
  const uint32_t offset = key % kBloomBlockKeys;
  const uint32_t up_to_end = num_bits - start;
  return offset < up_to_end ? start + offset : offset - up_to_end;
}

class BloomFilter {
 public:
  // Copies `bits`: shape.num_bytes() bytes, bit b being bit b % 8 of byte b / 8.
  BloomFilter(BloomShape shape, uint64_t seed, const unsigned char* bits);

  // Adds `keys` to the filter in `bits`; the bits of an empty filter are zero.
  static void Insert(BloomShape shape, uint64_t seed, Span<const uint32_t> keys,
                     unsigned char* bits);

  const BloomShape& shape() const { return shape_; }

  // Calls visit(bit) for the bits that the probes of `key` read, until it returns false.
  template <typename Visit>
  void VisitBits(uint32_t key, const Visit& visit) const {
    VisitBloomStarts(hash_of_(key / kBloomBlockKeys), shape_,
                     [&](uint32_t start) { return visit(BloomBit(start, key, shape_.num_bits)); });
  }

  // Appends the keys of [begin, end) that the filter contains, ascending.
  void AppendContained(uint32_t begin, uint32_t end, std::vector<uint32_t>* keys) const;

 private:
  // Which keys of a block the filter contains: bit j stands for key kBloomBlockKeys * block + j.
  uint64_t Contained(uint32_t block) const;

  BloomShape shape_;
  SeededHash hash_of_;
  std::vector<uint64_t> words_;  // The bits, then the first kBloomBlockKeys of them again.
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_BLOOM_FILTER_H_
