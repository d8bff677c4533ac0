// The Huffman code of the bytes of all of 0, ..., n - 1. FORMAT.md, "index: huffman".
#ifndef TFCOMPRESS_CORE_INDEX_BYTE_CODE_H_
#define TFCOMPRESS_CORE_INDEX_BYTE_CODE_H_

#include <cstdint>

#include "core/entropy/code_block_size.h"
#include "core/entropy/huffman.h"

namespace tfcompress {

inline constexpr int kBytesPerIndex = 4;
inline constexpr uint32_t kNumByteValues = 256;

// Decoders build it from n: no table is sent.
HuffmanCode ByteCodeFor(uint32_t n);

// Upper bound of the bytes of k indices with words of up to `max_length` bits.
inline uint64_t MaxByteCodeBytes(int max_length, uint64_t k) {
  if (k == 0) return 0;
  return BytesOfBits(static_cast<uint64_t>(kBytesPerIndex * max_length) * k) +
         MaxCodeBlockOverhead(k);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_INDEX_BYTE_CODE_H_
