// Canonical Huffman codes over the symbols 0 to m - 1, m <= 65536. FORMAT.md, "Huffman codes".
//
//   HuffmanCode code = HuffmanCode::FromCounts(counts);      // counts[symbol], at least one not 0
//   num_bits = code.NumLengthBits() rounded up to bytes + code.NumBits(counts)  // the exact cost
//   code.WriteLengths(&out);                                 // all that decoders need
//   BitWriter writer(begin, begin + BytesOfBits(code.NumBits(counts)));
//   code.Encode(symbols, &writer);
//
//   TFC_ASSIGN_OR_RETURN(code, HuffmanCode::ReadLengths(m, &byte_reader));
//   HuffmanDecoder(code).Decode(&bit_reader, symbols);       // then bit_reader.Finish(...)
//
// The length of words is limited, so that the decoder is one table that fits in the L1 cache (for
// alphabets above 1024 symbols, in the L2 cache). The only symbol of a code has the word 0 of one
// bit.
#ifndef TFCOMPRESS_CORE_ENTROPY_HUFFMAN_H_
#define TFCOMPRESS_CORE_ENTROPY_HUFFMAN_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/entropy/bit_stream.h"
#include "core/entropy/huffman_words.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Longest word of a code that is built for m symbols: 12 bits for m <= 1024, up to 16.
int HuffmanLimit(size_t num_symbols);

class HuffmanCode {
 public:
  using Word = HuffmanWord;

  // The code that takes the fewest bits for `counts` with words of at most HuffmanLimit bits;
  // symbols with count 0 get no word. At least one count is not 0; their sum is below 2^48.
  static HuffmanCode FromCounts(Span<const uint64_t> counts);
  // The code with a word of `length` bits for each of the 2^length symbols: symbol s has the bits
  // of s, the most significant first.
  static HuffmanCode Fixed(int length);
  // Fails with DataLoss unless the lengths are those of a complete prefix code, or of a single word
  // of one bit.
  static Result<HuffmanCode> FromLengths(std::vector<uint8_t> lengths);

  // Appends the lengths, which are all that decoders need, in whole bytes.
  void WriteLengths(Bytes* out) const;
  uint64_t NumLengthBits() const;
  // Reads what WriteLengths wrote for a code of `num_symbols` symbols, at most 2^kMaxHuffmanBits.
  static Result<HuffmanCode> ReadLengths(uint32_t num_symbols, ByteReader* reader);

  // lengths()[symbol] is the length of its word, 0 if it has none.
  const std::vector<uint8_t>& lengths() const { return lengths_; }
  const std::vector<Word>& words() const { return words_; }
  int max_length() const { return max_length_; }
  // Whether only one symbol has a word.
  bool is_alone() const;
  // Total bits of the words of symbols with these counts; all of them must have words.
  uint64_t NumBits(Span<const uint64_t> counts) const;

  // Appends the words of `symbols`, which must all have one.
  template <typename Symbol>
  void Encode(Span<const Symbol> symbols, BitWriter* writer) const;

 private:
  // The lengths must satisfy Kraft's inequality.
  explicit HuffmanCode(std::vector<uint8_t> lengths);

  std::vector<uint8_t> lengths_;
  std::vector<Word> words_;
  int max_length_ = 0;
};

// Decodes by looking up max_length bits in one table. Every bit string consists of words.
class HuffmanDecoder {
 public:
  // The symbol whose word is at the front of a bit string.
  struct Entry {
    uint16_t symbol;
    uint16_t length;  // Length of its word.
  };

  explicit HuffmanDecoder(const HuffmanCode& code);

  // Fills `symbols`. The caller checks at the end, with the reader, that there were enough bits.
  template <typename Symbol>
  void Decode(BitReader* reader, Span<Symbol> symbols) const;

 private:
  std::vector<Entry> table_;
  uint64_t mask_;
  int max_length_;
};

// ---- Implementation -------------------------------------------------------------------------

namespace huffman_internal {

// Words decoded from one Peek at the stream, if they are short enough.
inline constexpr size_t kBatch = 4;
inline bool FitsBatch(int max_length) {
  return static_cast<int>(kBatch) * max_length <= kMaxStreamBits;
}

}  // namespace huffman_internal

template <typename Symbol>
void HuffmanCode::Encode(Span<const Symbol> symbols, BitWriter* writer) const {
  using huffman_internal::kBatch;
  BitWriter bits = *writer;
  const Word* words = words_.data();
  size_t i = 0;
  if (huffman_internal::FitsBatch(max_length_)) {
    for (; i + kBatch <= symbols.size(); i += kBatch) {
      const Word a = words[symbols[i]], b = words[symbols[i + 1]];
      const Word c = words[symbols[i + 2]], d = words[symbols[i + 3]];
      const uint64_t ab = a.bits | static_cast<uint64_t>(b.bits) << a.length;
      const uint64_t cd = c.bits | static_cast<uint64_t>(d.bits) << c.length;
      const int ab_length = a.length + b.length;
      bits.Write(ab | cd << ab_length, ab_length + c.length + d.length);
    }
  }
  for (; i < symbols.size(); ++i) {
    const Word word = words[symbols[i]];
    bits.Write(word.bits, word.length);
  }
  *writer = bits;
}

template <typename Symbol>
void HuffmanDecoder::Decode(BitReader* reader, Span<Symbol> symbols) const {
  using huffman_internal::kBatch;
  BitReader bits = *reader;
  const Entry* table = table_.data();
  const uint64_t mask = mask_;
  size_t i = 0;
  if (huffman_internal::FitsBatch(max_length_)) {
    for (; i + kBatch <= symbols.size(); i += kBatch) {
      uint64_t window = bits.Peek();
      int num_bits = 0;
      for (size_t j = 0; j < kBatch; ++j) {
        const Entry entry = table[window & mask];
        symbols[i + j] = static_cast<Symbol>(entry.symbol);
        window >>= entry.length;
        num_bits += entry.length;
      }
      bits.Skip(num_bits);
    }
  }
  for (; i < symbols.size(); ++i) {
    const Entry entry = table[bits.Peek() & mask];
    symbols[i] = static_cast<Symbol>(entry.symbol);
    bits.Skip(entry.length);
  }
  *reader = bits;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_HUFFMAN_H_
