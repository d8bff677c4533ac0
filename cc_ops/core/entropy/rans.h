// Range asymmetric numeral systems (Duda 2013): symbols in as many bits as their probabilities say,
// by one multiplication each. A 32-bit state, words of 16 bits.
//
// The coder is last in, first out: the encoder keeps the symbols' ranges and codes them backwards
// when it is finished, so that the decoder, and both sides' models, go forwards.
#ifndef TFCOMPRESS_CORE_ENTROPY_RANS_H_
#define TFCOMPRESS_CORE_ENTROPY_RANS_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/entropy/adaptive_model.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

class RansEncoder {
 public:
  // Codes the symbol, and teaches it to the model.
  template <typename Model>
  void Put(int symbol, Model* model) {
    Append(model->Range(symbol));
    model->Learn(symbol);
  }
  // Codes `value` < 2^num_bits in num_bits bits, 0 <= num_bits <= 32.
  void PutBits(uint32_t value, int num_bits) {
    for (; num_bits > kMaxRawBits; num_bits -= kMaxRawBits, value >>= kMaxRawBits) {
      AppendBits(value & ((1u << kMaxRawBits) - 1), kMaxRawBits);
    }
    if (num_bits > 0) AppendBits(value, num_bits);
  }
  // Codes any number: its length, and the bits below its first.
  void PutNumber(uint32_t value);

  void Clear() { symbols_.clear(); }
  // Appends all that was put.
  void Finish(Bytes* out) const;

 private:
  static constexpr int kMaxRawBits = kProbabilityBits;

  void Append(SymbolRange range) { symbols_.push_back(range.start << 16 | range.frequency); }
  void AppendBits(uint32_t value, int num_bits) {
    const int shift = kProbabilityBits - num_bits;
    Append({value << shift, 1u << shift});
  }

  std::vector<uint32_t> symbols_;  // Start and frequency.
};

// Trusts nothing: past the end it yields any symbols, and ExpectEnd says so.
class RansDecoder {
 public:
  explicit RansDecoder(ByteSpan bytes);

  template <typename Model>
  int Get(Model* model) {
    const int symbol = model->Find(state_ & (kProbabilityScale - 1));
    Advance(model->Range(symbol));
    model->Learn(symbol);
    return symbol;
  }
  uint32_t GetBits(int num_bits) {
    uint32_t value = 0;
    int shift = 0;
    for (; num_bits > kProbabilityBits; num_bits -= kProbabilityBits, shift += kProbabilityBits) {
      value |= TakeBits(kProbabilityBits) << shift;
    }
    return num_bits > 0 ? value | TakeBits(num_bits) << shift : value;
  }
  uint32_t GetNumber();

  // Fails with DataLoss unless all bytes were read, and the state is the encoder's first.
  Status ExpectEnd(const char* what) const;

 private:
  void Advance(SymbolRange range) {
    state_ = range.frequency * (state_ >> kProbabilityBits) + (state_ & (kProbabilityScale - 1)) -
             range.start;
    if (state_ < kLeastState && position_ + 2 <= bytes_.size()) {
      state_ = state_ << 16 | LoadUnaligned<uint16_t>(bytes_.data() + position_);
      position_ += 2;
    }
  }
  uint32_t TakeBits(int num_bits) {
    const int shift = kProbabilityBits - num_bits;
    const uint32_t value = (state_ & (kProbabilityScale - 1)) >> shift;
    Advance({value << shift, 1u << shift});
    return value;
  }

  // Below it, a state takes the next word. The last states of all have none to take.
  static constexpr uint32_t kLeastState = 1u << 16;

  ByteSpan bytes_;
  size_t position_;  // Of the next word.
  uint32_t state_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_RANS_H_
