// Reads the words of a canonical Huffman code without a table of 2^16 entries: as numbers with
// their first bit highest, words ascend with their lengths, and by one within a length. FORMAT.md,
// "Huffman codes".
#ifndef TFCOMPRESS_CUDA_CANONICAL_CODE_H_
#define TFCOMPRESS_CUDA_CANONICAL_CODE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/huffman_words.h"

namespace tfcompress {
namespace device {

struct CanonicalWord {
  uint32_t length;
  uint32_t place;  // Among all words, in their order.
};

struct CanonicalCode {
  // Sets the code of which num_words[length] words have each length up to kMaxHuffmanBits: one that
  // CheckHuffmanLengths passed.
  __device__ void Set(const uint32_t* num_words) {
    uint32_t word = 0, place = 0;
    min_length = max_length = 0;
    for (uint32_t length = 1; length <= kMaxHuffmanBits; ++length) {
      word <<= 1;
      first_places[length] = place - word;
      word += num_words[length];
      place += num_words[length];
      ends[length] = word << (kMaxHuffmanBits - length);
      if (num_words[length] == 0) continue;
      if (min_length == 0) min_length = length;
      max_length = length;
    }
    last_place = place - 1;
    // One that is alone is read from either bit.
    if (place == 1) ends[1] = 1u << kMaxHuffmanBits;
  }

  // The word at bit 0 of the window: whatever the bits are, there is one.
  __device__ CanonicalWord Read(uint64_t window) const {
    const uint32_t bits = __brev(static_cast<uint32_t>(window)) >> (32 - kMaxHuffmanBits);
    uint32_t length = min_length;
    while (bits >= ends[length]) ++length;
    const uint32_t place = first_places[length] + (bits >> (kMaxHuffmanBits - length));
    return {length, place < last_place ? place : last_place};
  }

  uint32_t min_length;
  uint32_t max_length;
  uint32_t last_place;
  // By length: where words that long end, filled up to kMaxHuffmanBits bits, and the place of the
  // first one, less that word.
  uint32_t ends[kMaxHuffmanBits + 1];
  uint32_t first_places[kMaxHuffmanBits + 1];
};

// Reads the lengths of the words of m symbols, which are in whole bytes; false where they are none.
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

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CANONICAL_CODE_H_
