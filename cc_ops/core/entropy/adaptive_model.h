// Adaptive models of symbols for the rANS coder: they start from a prior, and learn from every
// symbol, so that no table travels. Integers only: encoder and decoder, on any machine, agree.
#ifndef TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_MODEL_H_
#define TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tfcompress {

// Frequencies are shares of 2^kProbabilityBits.
inline constexpr int kProbabilityBits = 12;
inline constexpr uint32_t kProbabilityScale = 1u << kProbabilityBits;

// The part of [0, kProbabilityScale) that stands for a symbol; frequency > 0.
struct SymbolRange {
  uint32_t start;
  uint32_t frequency;
};

// One of 16 symbols, by their counts. Ranges follow from the counts at times, less and less often:
// between them a model is a table, and symbols do not wait for each other. Every symbol has a range
// of at least 1, which is 12 bits; so none takes less than a 1514th of a byte.
class NibbleModel {
 public:
  // Lower bound of the bytes of `count` symbols.
  static uint64_t MinBytes(uint64_t count) { return count / 1600; }
  static constexpr int kSymbols = 16;
  static constexpr int kLast = kSymbols - 1;

  // All alike.
  NibbleModel() : NibbleModel(kUniform, kUniformWeight) {}
  // Symbol i + 1 is as likely as symbol i times `ratio` / 256, ratio < 256 (a geometric
  // distribution); the last symbol stands for itself and all above it. What is learned outweighs
  // that from `weight` symbols on.
  static NibbleModel Geometric(uint32_t ratio, uint32_t weight) {
    return NibbleModel(ratio, weight);
  }

  SymbolRange Range(int symbol) const {
    const uint32_t start = starts_[symbol];
    return {start, starts_[symbol + 1] - start};
  }
  // The symbol whose range has `point`.
  int Find(uint32_t point) const {
    // Counts starts in vectors, then in the quarters of a number.
    const auto p = static_cast<int16_t>(point);
    Starts low, high;
    std::memcpy(&low, starts_, sizeof(low));
    std::memcpy(&high, starts_ + kSymbols / 2, sizeof(high));
    const Starts counts = -((low <= p) + (high <= p));
    uint64_t quarters[2];
    std::memcpy(quarters, &counts, sizeof(counts));
    return static_cast<int>((quarters[0] + quarters[1]) * 0x0001000100010001 >> 48) - 1;
  }
  void Learn(int symbol) {
    counts_[symbol] = static_cast<uint16_t>(counts_[symbol] + kOne);
    if (--num_left_ == 0) Update();
  }

 private:
  typedef int16_t Starts __attribute__((vector_size(16)));

  static constexpr uint32_t kUniform = 256;
  static constexpr uint32_t kUniformWeight = 2;
  // What a symbol adds to its count; priors have fractions of it.
  static constexpr uint32_t kOne = 32;
  // Counts are halved above it.
  static constexpr uint32_t kMostTotal = 512 * kOne;
  // Symbols from one update to the next: this part of those seen, and no more than the most.
  static constexpr uint32_t kUpdatePart = 8;
  static constexpr uint32_t kMostLeft = 64;

  NibbleModel(uint32_t ratio, uint32_t weight) {
    uint32_t shares[kSymbols];
    uint32_t sum = 0;
    uint32_t share = 1u << 16;
    for (int i = 0; i + 1 < kSymbols; ++i, share = share * ratio >> 8) sum += shares[i] = share;
    shares[kSymbols - 1] = ratio < 256 ? share * 256 / (256 - ratio) : share;
    sum += shares[kSymbols - 1];
    for (int i = 0; i < kSymbols; ++i)
      counts_[i] = static_cast<uint16_t>(uint64_t{shares[i]} * weight * kOne / sum);
    Update();
  }
  // Makes the ranges those of the counts.
  void Update() {
    uint32_t total = 0;
    for (const uint16_t count : counts_) total += count;
    if (total > kMostTotal) {
      total = 0;
      for (uint16_t& count : counts_) total += count = static_cast<uint16_t>(count >> 1);
    }
    const uint32_t scale = ((kProbabilityScale - kSymbols) << 16) / total;
    uint32_t before = 0;
    for (int i = 0; i < kSymbols; ++i) {
      starts_[i] = static_cast<int16_t>((before * scale >> 16) + static_cast<uint32_t>(i));
      before += counts_[i];
    }
    starts_[kSymbols] = kProbabilityScale;
    num_left_ = std::clamp<uint32_t>(total / (kUpdatePart * kOne), 1, kMostLeft);
  }

  int16_t starts_[kSymbols + 1];
  uint16_t counts_[kSymbols];
  uint32_t num_left_;  // Symbols to the next update.
};

// Halves the weight of what was learned every 2^shift symbols. After few symbols it is their mean:
// the shift grows with the logarithm of their number, `seen`, until it is kSlowest.
class LearningRate {
 public:
  // A prior worth `weight` symbols.
  explicit LearningRate(int weight) : seen_(weight) {}
  int Next() {
    if (seen_ >= 1 << (kSlowest - 1)) return kSlowest;
    return 32 - __builtin_clz(static_cast<unsigned>(seen_++));
  }

 private:
  static constexpr int kSlowest = 9;
  int seen_;
};

// One of two symbols.
class BitModel {
 public:
  SymbolRange Range(int bit) const {
    // Masks, not branches, which could not be foretold.
    const uint32_t zeros = zeros_ >> kFractionBits;
    const uint32_t one = 0 - static_cast<uint32_t>(bit);
    return {zeros & one, zeros + ((kProbabilityScale - 2 * zeros) & one)};
  }
  int Find(uint32_t point) const { return point >= zeros_ >> kFractionBits; }
  void Learn(int bit) {
    const int goal = kMost + ((kLeast - kMost) & -bit);
    zeros_ += static_cast<uint32_t>((goal - static_cast<int>(zeros_)) >> rate_.Next());
  }

 private:
  static constexpr int kFractionBits = 8;
  static constexpr uint32_t kScale = kProbabilityScale << kFractionBits;
  static constexpr int kLeast = 4 << kFractionBits;
  static constexpr int kMost = static_cast<int>(kScale) - kLeast;
  uint32_t zeros_ = kScale / 2;
  LearningRate rate_{1};
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_MODEL_H_
