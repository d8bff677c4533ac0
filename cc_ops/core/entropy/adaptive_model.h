// Adaptive models of symbols for the rANS coder: they start from a prior, and learn from every
// symbol, so that no table travels. Integers only: encoder and decoder, on any machine, agree.
#ifndef TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_MODEL_H_
#define TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_MODEL_H_

#include <algorithm>
#include <cstdint>

namespace tfcompress {

// Frequencies are shares of 2^kProbabilityBits.
inline constexpr int kProbabilityBits = 15;
inline constexpr uint32_t kProbabilityScale = 1u << kProbabilityBits;

// The part of [0, kProbabilityScale) that stands for a symbol; frequency > 0.
struct SymbolRange {
  uint32_t start;
  uint32_t frequency;
};

// Halves the weight of what was learned every 2^shift symbols. After few symbols it is their mean:
// the shift grows with the logarithm of their number, `seen`, until it is kSlowest.
class LearningRate {
 public:
  // A prior worth `weight` symbols.
  explicit LearningRate(int weight) : seen_(weight) {}
  int Next() {
    const int shift = 31 - __builtin_clz(static_cast<unsigned>(seen_)) + 1;
    seen_ = std::min(seen_ + 1, (1 << kSlowest) - 1);
    return shift;
  }

 private:
  static constexpr int kSlowest = 9;
  int seen_;
};

// One of 16 symbols. No symbol is ever rarer than kLeast of kProbabilityScale, which is 12 bits; so
// none takes less than a 1514th of a byte.
class NibbleModel {
 public:
  // Lower bound of the bytes of `count` symbols.
  static uint64_t MinBytes(uint64_t count) { return count / 1600; }
  static constexpr int kSymbols = 16;
  static constexpr int kLast = kSymbols - 1;

  // All alike.
  NibbleModel() : NibbleModel(kUniform, 1) {}
  // Symbol i + 1 is as likely as symbol i times `ratio` / 256, ratio < 256 (a geometric
  // distribution); the last symbol stands for itself and all above it.
  static NibbleModel Geometric(uint32_t ratio) { return NibbleModel(ratio, kGeometricWeight); }

  SymbolRange Range(int symbol) const {
    const uint32_t end = symbol + 1 < kSymbols ? Start(symbol + 1) : kProbabilityScale;
    return {Start(symbol), end - Start(symbol)};
  }
  // The symbol whose range has `point`.
  int Find(uint32_t point) const {
    int symbol = 0;
    for (int i = 1; i < kSymbols; ++i) symbol += Start(i) <= point;
    return symbol;
  }
  void Learn(int symbol) {
    const int shift = rate_.Next();
    for (int i = 1; i < kSymbols; ++i) {
      const int32_t target = i <= symbol ? 0 : kFree << kFractionBits;
      starts_[i] += (target - starts_[i]) >> shift;
    }
  }

 private:
  static constexpr int kLeast = 8;
  static constexpr int kFree = static_cast<int>(kProbabilityScale) - kLeast * kSymbols;
  static constexpr int kFractionBits = 16;  // Of starts_.
  static constexpr uint32_t kUniform = 256;
  static constexpr int kGeometricWeight = 16;

  NibbleModel(uint32_t ratio, int weight) : rate_(weight) {
    uint32_t shares[kSymbols];
    uint32_t sum = 0;
    uint32_t share = 1u << 16;
    for (int i = 0; i + 1 < kSymbols; ++i, share = share * ratio >> 8) sum += shares[i] = share;
    shares[kSymbols - 1] = ratio < 256 ? share * 256 / (256 - ratio) : share;
    sum += shares[kSymbols - 1];
    uint64_t before = 0;
    for (int i = 0; i < kSymbols; ++i) {
      starts_[i] = static_cast<int32_t>((before * kFree << kFractionBits) / sum);
      before += shares[i];
    }
  }
  uint32_t Start(int symbol) const {
    return static_cast<uint32_t>((starts_[symbol] >> kFractionBits) + kLeast * symbol);
  }

  int32_t starts_[kSymbols];  // Ascending, from 0 to at most kFree; without the least shares.
  LearningRate rate_;
};

// One of two symbols.
class BitModel {
 public:
  SymbolRange Range(int bit) const {
    return bit == 0 ? SymbolRange{0, zeros_} : SymbolRange{zeros_, kProbabilityScale - zeros_};
  }
  int Find(uint32_t point) const { return point >= zeros_; }
  void Learn(int bit) {
    const int target = bit == 0 ? static_cast<int>(kProbabilityScale) - kLeast : kLeast;
    zeros_ += (target - static_cast<int>(zeros_)) >> rate_.Next();
    zeros_ = std::clamp<uint32_t>(zeros_, kLeast, kProbabilityScale - kLeast);
  }

 private:
  static constexpr int kLeast = 32;
  uint32_t zeros_ = kProbabilityScale / 2;
  LearningRate rate_{1};
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_MODEL_H_
