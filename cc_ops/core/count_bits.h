// Counts bits of words, and of byte strings word by word.
#ifndef TFCOMPRESS_CORE_COUNT_BITS_H_
#define TFCOMPRESS_CORE_COUNT_BITS_H_

#include <cstdint>
#include <cstring>

#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

// Zeros above the highest set bit of `word`, which is not 0.
TFC_HOST_DEVICE inline int CountLeadingZeros(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __clz(static_cast<int>(word));
#else
  return __builtin_clz(word);
#endif
}

// Zeros below the lowest set bit of `word`, which is not 0.
TFC_HOST_DEVICE inline int CountTrailingZeros(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(word)) - 1;
#else
  return __builtin_ctz(word);
#endif
}

// Loads the eight bytes at `offset` < bytes.size(), with zeros past the end.
inline uint64_t LoadWord(ByteSpan bytes, size_t offset) {
  uint64_t word = 0;
  const size_t rest = bytes.size() - offset;
  if (rest >= sizeof(word)) {
    std::memcpy(&word, bytes.data() + offset, sizeof(word));  // A constant size: one instruction.
  } else {
    std::memcpy(&word, bytes.data() + offset, rest);
  }
  return word;
}

// Counts set bits. The builtin would be a function call on the oldest x86-64, which lacks the
// instruction.
inline uint64_t CountBits(uint64_t word) {
#ifdef __POPCNT__
  return static_cast<uint64_t>(__builtin_popcountll(word));
#else
  word -= word >> 1 & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return word * 0x0101010101010101u >> 56;
#endif
}

inline uint64_t CountBits(ByteSpan bytes) {
  uint64_t count = 0;
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t))
    count += CountBits(LoadWord(bytes, offset));
  return count;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_COUNT_BITS_H_
