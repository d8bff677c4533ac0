// Reads the words of a canonical Huffman code without a table of 2^16 entries. Taken as numbers
// with the first bit highest, words ascend with their lengths, and by one within a length.
// FORMAT.md, "Huffman codes".
#ifndef TFCOMPRESS_CUDA_CANONICAL_CODE_H_
#define TFCOMPRESS_CUDA_CANONICAL_CODE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/huffman_words.h"

namespace tfcompress {
namespace device {

struct CanonicalCode {
  // Sets a code with num_words[length] words of each length up to kMaxHuffmanBits. The lengths must
  // have passed CheckHuffmanLengths.
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
    // A word that is the only one is read from either bit.
    if (place == 1) ends[1] = 1u << kMaxHuffmanBits;
  }

  uint32_t min_length;
  uint32_t max_length;
  uint32_t last_place;
  // For each length: the end of the words of that length, as numbers of kMaxHuffmanBits bits, and
  // the place of the first word minus its number.
  uint32_t ends[kMaxHuffmanBits + 1];
  uint32_t first_places[kMaxHuffmanBits + 1];
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CANONICAL_CODE_H_
