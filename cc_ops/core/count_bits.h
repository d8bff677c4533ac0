// Counting set bits of byte strings, a word at a time.
#ifndef TFCOMPRESS_CORE_COUNT_BITS_H_
#define TFCOMPRESS_CORE_COUNT_BITS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/span.h"

namespace tfcompress {

// The eight bytes at `offset` < bytes.size(), zeros in place of those past the end.
inline uint64_t LoadWord(ByteSpan bytes, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, std::min(sizeof(word), bytes.size() - offset));
  return word;
}

inline uint64_t CountBits(uint64_t word) {
  return static_cast<uint64_t>(__builtin_popcountll(word));
}

inline uint64_t CountBits(ByteSpan bytes) {
  uint64_t count = 0;
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t))
    count += CountBits(LoadWord(bytes, offset));
  return count;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_COUNT_BITS_H_
