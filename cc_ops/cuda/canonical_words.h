// Reads the words of canonical Huffman codes, and their lengths.
#ifndef TFCOMPRESS_CUDA_CANONICAL_WORDS_H_
#define TFCOMPRESS_CUDA_CANONICAL_WORDS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/huffman_words.h"
#include "cuda/canonical_code.h"

namespace tfcompress {
namespace device {

struct CanonicalWord {
  uint32_t length;
  uint32_t place;  // Among all words, in their order.
};

// Reads the word at bit 0 of the window. Every window begins with a word.
__device__ inline CanonicalWord ReadWord(const CanonicalCode& code, uint64_t window) {
  const uint32_t bits = __brev(static_cast<uint32_t>(window)) >> (32 - kMaxHuffmanBits);
  uint32_t length = code.min_length;
  while (bits >= code.ends[length]) ++length;
  const uint32_t place = code.first_places[length] + (bits >> (kMaxHuffmanBits - length));
  return {length, place < code.last_place ? place : code.last_place};
}

// Reads the lengths of the words of m symbols, which fill whole bytes; false if they are invalid.
template <typename Reader>
__device__ bool ReadWordLengths(uint32_t m, Reader* reader, uint8_t* lengths) {
  int64_t previous = -1;
  for (uint32_t symbol = 0; symbol < m;) {
    const LengthRun run = ReadLengthRun(previous, m - symbol, reader);
    if (!run.is_valid) return false;
    for (uint32_t i = 0; i < run.count; ++i) lengths[symbol++] = static_cast<uint8_t>(run.length);
    previous = run.length;
  }
  return reader->Finish() && CheckHuffmanLengths(lengths, m) == LengthsError::kNone;
}

// Sets the code of m symbols, and calls put(place, symbol) for each symbol with a word. Runs on one
// thread. `num_words` has room for kMaxHuffmanBits + 1 numbers.
template <typename Put>
__device__ void SetCode(const uint8_t* lengths, uint32_t m, uint32_t* num_words,
                        CanonicalCode* code, const Put& put) {
  for (uint32_t length = 0; length <= kMaxHuffmanBits; ++length) num_words[length] = 0;
  for (uint32_t symbol = 0; symbol < m; ++symbol) ++num_words[lengths[symbol]];
  code->Set(num_words);
  // From here on, num_words[length] is the place of the next word of that length.
  uint32_t place = 0;
  for (uint32_t length = 1; length <= kMaxHuffmanBits; ++length) {
    const uint32_t count = num_words[length];
    num_words[length] = place;
    place += count;
  }
  for (uint32_t symbol = 0; symbol < m; ++symbol)
    if (lengths[symbol] != 0) put(num_words[lengths[symbol]]++, symbol);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CANONICAL_WORDS_H_
