#include "core/sketch/bloom_filter.h"

#include <algorithm>
#include <cmath>

#include "core/count_bits.h"

namespace tfcompress {
namespace {

// 64 bits of `words` from bit `start` on; there is a word after the one with that bit.
uint64_t BitsFrom(const uint64_t* words, uint32_t start) {
  const uint32_t shift = start % 64;
  const uint64_t* word = words + start / 64;
  return word[0] >> shift | (word[1] << 1) << (63 - shift);
}

}  // namespace

BloomRate::BloomRate(double fpr) : halvings_(std::log2(1 / fpr)) {
  const double num_hashes = std::round(halvings_);
  num_hashes_ = static_cast<int>(std::clamp(num_hashes, 1.0, static_cast<double>(kMaxBloomHashes)));
}

BloomFilter::BloomFilter(BloomShape shape, uint64_t seed, const unsigned char* bits)
    : shape_(shape), hash_of_(seed), words_(shape.num_bits / 64 + 3) {
  const ByteSpan bytes(bits, static_cast<size_t>(shape.num_bytes()));
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t))
    words_[offset / sizeof(uint64_t)] = LoadWord(bytes, offset);
  uint64_t* last = words_.data() + shape.num_bits / 64;
  const uint32_t shift = shape.num_bits % 64;
  last[0] |= words_[0] << shift;
  last[1] = (words_[0] >> 1) >> (63 - shift);
}

void BloomFilter::Insert(BloomShape shape, uint64_t seed, Span<const uint32_t> keys,
                         unsigned char* bits) {
  const SeededHash hash_of(seed);
  for (const uint32_t key : keys) {
    VisitBloomStarts(hash_of(key / kBloomBlockKeys), shape, [&](uint32_t start) {
      const uint32_t bit = BloomBit(start, key, shape.num_bits);
      bits[bit >> 3] = static_cast<unsigned char>(bits[bit >> 3] | 1u << (bit & 7));
      return true;
    });
  }
}

uint64_t BloomFilter::Contained(uint32_t block) const {
  uint64_t contained = ~uint64_t{0};
  VisitBloomStarts(hash_of_(block), shape_, [&](uint32_t start) {
    contained &= BitsFrom(words_.data(), start);
    return contained != 0;
  });
  return contained;
}

void BloomFilter::AppendContained(uint32_t begin, uint32_t end, std::vector<uint32_t>* keys) const {
  while (begin < end) {
    const uint32_t block = begin / kBloomBlockKeys;
    const uint32_t first = begin % kBloomBlockKeys;
    const uint32_t num_keys = std::min(kBloomBlockKeys - first, end - begin);
    const uint64_t asked = ~uint64_t{0} >> (kBloomBlockKeys - num_keys) << first;
    for (uint64_t found = Contained(block) & asked; found != 0; found &= found - 1)
      keys->push_back(block * kBloomBlockKeys + static_cast<uint32_t>(__builtin_ctzll(found)));
    begin += num_keys;
  }
}

}  // namespace tfcompress
