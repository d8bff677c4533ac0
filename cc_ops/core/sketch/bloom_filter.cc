#include "core/sketch/bloom_filter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tfcompress {

BloomRate::BloomRate(double fpr) : halvings_(std::log2(1 / fpr)) {
  const double num_hashes = std::round(halvings_);
  num_hashes_ = static_cast<int>(std::clamp(num_hashes, 1.0, static_cast<double>(kMaxBloomHashes)));
}

void BloomFilter::Insert(BloomShape shape, uint64_t seed, Span<const uint32_t> keys,
                         unsigned char* bits) {
  for (const uint32_t key : keys) {
    const uint64_t hash = HashKey(key, seed);
    for (int i = 0; i < shape.num_hashes; ++i) {
      const uint32_t position = Position(hash, static_cast<uint32_t>(i), shape.num_bits);
      bits[position >> 3] = static_cast<unsigned char>(bits[position >> 3] | 1u << (position & 7));
    }
  }
}

size_t BloomFilter::KeepPassing(int first_probe, uint32_t* keys, size_t num_keys) const {
  // Probes past the last one repeat it.
  const uint32_t last = static_cast<uint32_t>(shape_.num_hashes - 1);
  const uint32_t probe0 = static_cast<uint32_t>(first_probe);
  const uint32_t probe1 = std::min(probe0 + 1, last);
  const uint32_t probe2 = std::min(probe0 + 2, last);
  const uint32_t num_bits = shape_.num_bits;
  const unsigned char* const bits = bits_;
  auto bit_at = [bits](uint32_t position) {
    return static_cast<uint32_t>(bits[position >> 3] >> (position & 7));
  };
  size_t num_kept = 0;
  for (size_t j = 0; j < num_keys; ++j) {
    const uint32_t key = keys[j];
    const uint64_t hash = HashKey(key, seed_);
    const uint32_t passes = bit_at(Position(hash, probe0, num_bits)) &
                            bit_at(Position(hash, probe1, num_bits)) &
                            bit_at(Position(hash, probe2, num_bits));
    keys[num_kept] = key;
    num_kept += passes & 1;
  }
  return num_kept;
}

void BloomFilter::AppendContained(uint32_t begin, uint32_t end, std::vector<uint32_t>* keys) const {
  // Half of the bits of a full filter are set, so that a branch on a probe is mispredicted half of
  // the time. Instead, chunks of keys are filtered by three probes at a time, without a branch.
  constexpr uint32_t kChunkKeys = 2048;
  uint32_t chunk[kChunkKeys];
  while (begin < end) {
    size_t num_keys = std::min(kChunkKeys, end - begin);
    std::iota(chunk, chunk + num_keys, begin);
    begin += static_cast<uint32_t>(num_keys);
    for (int probe = 0; probe < shape_.num_hashes; probe += 3)
      num_keys = KeepPassing(probe, chunk, num_keys);
    keys->insert(keys->end(), chunk, chunk + num_keys);
  }
}

}  // namespace tfcompress
