// Range asymmetric numeral systems (Duda 2013): symbols in as many bits as their probabilities say,
// by one multiplication each. 32-bit states, words of 16 bits.
//
// The coder is last in, first out: the encoder keeps the symbols' ranges and codes them backwards
// when it is finished, so that the decoder, and both sides' models, go forwards. Symbols take turns
// among several states, the lanes, so that a processor need not finish one before the next.
#ifndef TFCOMPRESS_CORE_ENTROPY_RANS_H_
#define TFCOMPRESS_CORE_ENTROPY_RANS_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/entropy/adaptive_model.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

inline constexpr int kMaxRansLanes = 4;

// Lanes for the code of `count` items. Each but the first takes four bytes more.
inline int RansLanes(uint64_t count) {
  constexpr uint64_t kLeastOfMany = 8192;
  return count < kLeastOfMany ? 1 : kMaxRansLanes;
}

// Below it, a state takes the next word, if any is left.
inline constexpr uint32_t kLeastRansState = 1u << 16;

// Appends a code to `out`, which nothing else appends to before it is finished: until then the
// symbols' ranges stand there, so that a caller who keeps the vector's memory spares theirs.
class RansEncoder {
 public:
  explicit RansEncoder(Bytes* out) : out_(out), begin_(out->size()), next_(end()), end_(end()) {}

  // Codes the symbol, and teaches it to the model.
  template <typename Model>
  void Put(int symbol, Model* model) {
    Append(model->Range(symbol));
    model->Learn(symbol);
  }
  // Codes `value` < 2^num_bits in num_bits bits, 0 <= num_bits <= 32.
  void PutBits(uint32_t value, int num_bits) {
    for (; num_bits > kProbabilityBits; num_bits -= kProbabilityBits, value >>= kProbabilityBits)
      AppendBits(value & (kProbabilityScale - 1), kProbabilityBits);
    if (num_bits > 0) AppendBits(value, num_bits);
  }
  // Codes any number: its length, and the bits below its first.
  void PutNumber(uint32_t value);

  // Turns what was put into its code, of 1 or kMaxRansLanes lanes.
  void Finish(int num_lanes);

 private:
  struct Room {
    unsigned char* next;
    unsigned char* end;
  };

  unsigned char* end() { return out_->data() + out_->size(); }
  void Append(SymbolRange range) {
    if (__builtin_expect(next_ == end_, false)) {
      const Room room = Grow(out_, begin_, next_);
      next_ = room.next;
      end_ = room.end;
    }
    StoreUnaligned(next_, range.start << 16 | range.frequency);
    next_ += sizeof(uint32_t);
  }
  void AppendBits(uint32_t value, int num_bits) {
    const int shift = kProbabilityBits - num_bits;
    Append({value << shift, 1u << shift});
  }
  template <size_t kLanes>
  void FinishLanes();
  // Takes no address of the encoder: a compiler keeps a local one in registers.
  static Room Grow(Bytes* out, size_t begin, unsigned char* next);

  Bytes* out_;
  size_t begin_;         // Of the code.
  unsigned char* next_;  // Range.
  unsigned char* end_;
};

// Trusts nothing: past the end it yields any symbols, and ExpectEnd says so.
class RansDecoder {
 public:
  RansDecoder(int num_lanes, ByteSpan bytes);

  template <typename Model>
  int Get(Model* model) {
    const int symbol = model->Find(states_[lane_] & (kProbabilityScale - 1));
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

  // Fails with DataLoss unless all bytes were read, and the states are the encoder's first.
  Status ExpectEnd(const char* what) const;

 private:
  void Advance(SymbolRange range) {
    uint32_t state = states_[lane_];
    state = range.frequency * (state >> kProbabilityBits) + (state & (kProbabilityScale - 1)) -
            range.start;
    // Without a branch, which could not be foretold.
    const uint32_t least = next_ == end_ ? 0 : kLeastRansState;
    const uint32_t num_words = state < least;
    states_[lane_] = state << (16 * num_words) | (LoadUnaligned<uint16_t>(next_) & (0 - num_words));
    next_ += sizeof(uint16_t) * num_words;
    lane_ = (lane_ + 1) & lane_mask_;
  }
  uint32_t TakeBits(int num_bits) {
    const int shift = kProbabilityBits - num_bits;
    const uint32_t value = (states_[lane_] & (kProbabilityScale - 1)) >> shift;
    Advance({value << shift, 1u << shift});
    return value;
  }

  uint32_t states_[kMaxRansLanes] = {};
  uint32_t lane_ = 0;  // Of the next symbol.
  uint32_t lane_mask_;
  // The next word, and the end of all. The states are behind them, so that there is always
  // something to load.
  const unsigned char* next_;
  const unsigned char* end_;
  bool is_whole_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_RANS_H_
