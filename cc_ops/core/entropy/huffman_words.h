// Computes the words of a canonical Huffman code from their lengths, and codes the lengths. Shared
// by HuffmanCode and kernels. FORMAT.md, "Huffman codes".
#ifndef TFCOMPRESS_CORE_ENTROPY_HUFFMAN_WORDS_H_
#define TFCOMPRESS_CORE_ENTROPY_HUFFMAN_WORDS_H_

#include <cstdint>

#include "core/count_bits.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr int kMaxHuffmanBits = 16;
// Codes for up to 1024 symbols keep to so many: a table of 16 KiB decodes them.
inline constexpr int kSmallAlphabetHuffmanBits = 12;

// A code word as in a bit string: the first bit is the lowest.
struct HuffmanWord {
  uint16_t bits;
  uint16_t length;  // 0 if the symbol has no word.
};

// Reasons why lengths are not those of a code.
enum class LengthsError { kNone, kTooManyWords, kUnusedWords };

// Checks lengths of m symbols, lengths[symbol] <= kMaxHuffmanBits, 0 for no word: the code must be
// complete, or a single word of one bit.
TFC_HOST_DEVICE inline LengthsError CheckHuffmanLengths(const uint8_t* lengths, uint32_t m) {
  constexpr uint64_t kWhole = uint64_t{1} << kMaxHuffmanBits;
  uint64_t used = 0;
  uint32_t num_words = 0;
  for (uint32_t symbol = 0; symbol < m; ++symbol) {
    if (lengths[symbol] == 0) continue;
    used += kWhole >> lengths[symbol];
    ++num_words;
  }
  if (used > kWhole) return LengthsError::kTooManyWords;
  if (used == kWhole || (num_words == 1 && used == kWhole / 2)) return LengthsError::kNone;
  return LengthsError::kUnusedWords;
}

TFC_HOST_DEVICE inline uint32_t ReverseBits(uint32_t bits, int num_bits) {
  uint32_t reversed = 0;
  for (int i = 0; i < num_bits; ++i) reversed |= (bits >> i & 1) << (num_bits - 1 - i);
  return reversed;
}

// Sets the words of m symbols with checked lengths and returns the greatest length. `next_words`
// has room for kMaxHuffmanBits + 1 numbers.
TFC_HOST_DEVICE inline int AssignHuffmanWords(const uint8_t* lengths, uint32_t m,
                                              uint32_t* next_words, HuffmanWord* words) {
  for (int length = 0; length <= kMaxHuffmanBits; ++length) next_words[length] = 0;
  for (uint32_t symbol = 0; symbol < m; ++symbol) ++next_words[lengths[symbol]];
  uint32_t word = 0;
  int max_length = 0;
  for (int length = 1; length <= kMaxHuffmanBits; ++length) {
    const uint32_t num_words = next_words[length];
    next_words[length] = word <<= 1;
    word += num_words;
    if (num_words > 0) max_length = length;
  }
  for (uint32_t symbol = 0; symbol < m; ++symbol) {
    const uint8_t length = lengths[symbol];
    const uint32_t bits = length == 0 ? 0 : ReverseBits(next_words[length]++, length);
    words[symbol] = {static_cast<uint16_t>(bits), length};
  }
  return max_length;
}

// ---- Lengths as bits ----------------------------------------------------------------------------

// Elias' gamma code of a number in [1, 2^17): one zero for each bit after its first, a one, and
// these bits.
struct Gamma {
  TFC_HOST_DEVICE explicit Gamma(uint32_t value) : num_low_bits(31 - CountLeadingZeros(value)) {
    const uint64_t low = value - (uint32_t{1} << num_low_bits);
    bits = uint64_t{1} << num_low_bits | low << (num_low_bits + 1);
  }
  TFC_HOST_DEVICE int num_bits() const { return 2 * num_low_bits + 1; }

  int num_low_bits;
  uint64_t bits;
};

// Reads a number below 2^18, or returns 0.
template <typename Reader>
TFC_HOST_DEVICE uint32_t ReadGamma(Reader* reader) {
  const uint64_t bits = reader->Peek();
  const int num_low_bits = CountTrailingZeros(static_cast<uint32_t>(bits) | uint32_t{1} << 18);
  if (num_low_bits > 17) return 0;
  reader->Skip(2 * num_low_bits + 1);
  const auto low = static_cast<uint32_t>(bits >> (num_low_bits + 1));
  const uint32_t one = uint32_t{1} << num_low_bits;
  return one | (low & (one - 1));
}

// Calls body(step, run) for the runs of equal lengths: `step` is the difference to the length of
// the run before, at first -1.
template <typename Body>
TFC_HOST_DEVICE void ForEachLengthRun(const uint8_t* lengths, uint32_t m, const Body& body) {
  int previous = -1;
  for (uint32_t begin = 0, end = 0; begin < m; begin = end) {
    while (end < m && lengths[end] == lengths[begin]) ++end;
    body(lengths[begin] - previous, end - begin);
    previous = lengths[begin];
  }
}

TFC_HOST_DEVICE inline Gamma StepSize(int step) {
  return Gamma(static_cast<uint32_t>(step < 0 ? -step : step));
}

TFC_HOST_DEVICE inline uint64_t NumLengthBits(const uint8_t* lengths, uint32_t m) {
  uint64_t num_bits = 0;
  ForEachLengthRun(lengths, m, [&](int step, uint32_t run) {
    num_bits += static_cast<uint64_t>(1 + StepSize(step).num_bits() + Gamma(run).num_bits());
  });
  return num_bits;
}

template <typename Writer>
TFC_HOST_DEVICE void WriteLengthRuns(const uint8_t* lengths, uint32_t m, Writer* writer) {
  ForEachLengthRun(lengths, m, [&](int step, uint32_t run) {
    writer->Write(step < 0, 1);
    writer->Write(StepSize(step).bits, StepSize(step).num_bits());
    writer->Write(Gamma(run).bits, Gamma(run).num_bits());
  });
}

struct LengthRun {
  int64_t length;
  uint32_t count;
  bool is_valid;
};

// Reads the run after one of length `previous`, -1 for none, when `num_left` symbols remain.
template <typename Reader>
TFC_HOST_DEVICE LengthRun ReadLengthRun(int64_t previous, uint64_t num_left, Reader* reader) {
  const bool is_down = reader->Peek() & 1;
  reader->Skip(1);
  const int64_t step = ReadGamma(reader);
  const uint32_t count = ReadGamma(reader);
  const int64_t length = previous + (is_down ? -step : step);
  const bool is_valid =
      step != 0 && count != 0 && length >= 0 && length <= kMaxHuffmanBits && count <= num_left;
  return {length, count, is_valid};
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_HUFFMAN_WORDS_H_
