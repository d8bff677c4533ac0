#include "core/seeded_support.h"

#include "core/bit_io.h"
#include "core/hash.h"
#include "core/radix_sort.h"

namespace tfcompress {
namespace {

constexpr int kRounds = 6;

// A permutation of [0, n): an unbalanced Feistel network over the next power of two, walked until
// it lands below n. The power is below 2n, so that is fewer than two steps on average.
class Permutation {
 public:
  Permutation(uint32_t n, uint64_t seed) : n_(n), seed_(seed) {
    const int num_bits = BitsFor(n);
    low_bits_ = num_bits / 2;
    high_bits_ = num_bits - low_bits_;
  }

  uint32_t operator()(uint32_t x) const {
    do {
      x = Scramble(x);
    } while (x >= n_);
    return x;
  }

 private:
  // Every round changes one part by a function of the other, so each can be undone; the parts take
  // turns.
  uint32_t Scramble(uint32_t x) const {
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

}  // namespace

std::vector<uint32_t> SeededSupport(uint32_t n, uint32_t k, uint64_t seed, Executor* executor) {
  const Permutation permutation(n, seed);
  std::vector<uint32_t> indices(k);
  ForEachBlock(executor, k, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) indices[i] = permutation(static_cast<uint32_t>(i));
  });
  RadixSort(0, BitsFor(n), executor, &indices);
  return indices;
}

Status SeededSupportCodec::Encode(Span<const uint32_t> indices, uint32_t n, const CodecContext&,
                                  Bytes*, std::vector<uint32_t>*) const {
  return CheckIndices(indices, n);
}

Status SeededSupportCodec::Decode(ByteSpan section, uint32_t n, uint32_t k,
                                  const CodecContext& context,
                                  std::vector<uint32_t>* indices) const {
  if (!section.empty()) return DataLoss("an index section where the seed implies the support");
  *indices = SeededSupport(n, k, context.seed, context.executor);
  return OkStatus();
}

}  // namespace tfcompress
