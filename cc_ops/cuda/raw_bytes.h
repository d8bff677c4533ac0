// Loads and stores of sections, which begin at any byte; aligned words are loaded and stored whole.
#ifndef TFCOMPRESS_CUDA_RAW_BYTES_H_
#define TFCOMPRESS_CUDA_RAW_BYTES_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/byte_io.h"
#include "cuda/launch.h"

namespace tfcompress {
namespace device {

// Unsigned integer of as many bytes as T, which has 2 or 4.
template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;

// The i-th T of a section. The branches differ on purpose: nvcc 13.0 joins a store of a whole word
// and a memcpy of the same value into one store that requires an aligned address.
template <typename T>
__device__ void StoreAt(unsigned char* section, uint64_t i, T value) {
  using Bits = BitsOf<T>;
  static_assert(sizeof(Bits) == sizeof(T));
  unsigned char* to = section + i * sizeof(T);
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T) == 0) {
    *reinterpret_cast<T*>(to) = value;
    return;
  }
  const auto bits = LoadUnaligned<Bits>(&value);
  for (uint32_t byte = 0; byte < sizeof(T); ++byte)
    to[byte] = static_cast<unsigned char>(bits >> (8 * byte));
}
template <typename T>
__device__ T LoadAt(const unsigned char* section, uint64_t i) {
  using Bits = BitsOf<T>;
  static_assert(sizeof(Bits) == sizeof(T));
  const unsigned char* from = section + i * sizeof(T);
  if (reinterpret_cast<uintptr_t>(from) % sizeof(T) == 0) return *reinterpret_cast<const T*>(from);
  Bits bits = 0;
  for (uint32_t byte = 0; byte < sizeof(T); ++byte)
    bits = static_cast<Bits>(bits | static_cast<Bits>(from[byte]) << (8 * byte));
  return LoadUnaligned<T>(&bits);
}

// Words of memory that a section of so many bytes has bytes of.
__device__ inline uint64_t NumTouchedWords(const unsigned char* section, uint64_t num_bytes) {
  return (reinterpret_cast<uintptr_t>(section) % 4 + num_bytes + 3) / 4;
}

// Stores, of the bytes of words, those of the i-th word of memory that the section has bytes of: as
// a whole, or byte by byte at the ends of the section.
__device__ inline void StoreTouchedWord(const uint32_t* words, uint64_t num_bytes,
                                        unsigned char* section, uint64_t i) {
  const auto lead = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(section) % 4);
  unsigned char* const begin = section - lead;
  const uint64_t end = lead + num_bytes;
  uint32_t word = i * 4 < num_bytes ? words[i] : 0;
  if (lead > 0) word = word << (8 * lead) | (i > 0 ? words[i - 1] >> (32 - 8 * lead) : 0);
  if (i * 4 >= lead && i * 4 + 4 <= end) {
    reinterpret_cast<uint32_t*>(begin)[i] = word;
    return;
  }
  for (uint32_t byte = i > 0 ? 0 : lead; byte < 4 && i * 4 + byte < end; ++byte)
    begin[i * 4 + byte] = static_cast<unsigned char>(word >> (8 * byte));
}

// Stores the bytes of words, by all threads of a grid, or by the lanes of a warp.
__device__ inline void StoreBytes(const uint32_t* words, uint64_t num_bytes,
                                  unsigned char* section) {
  const uint64_t num_words = NumTouchedWords(section, num_bytes);
  for (uint64_t i = ThisThread(); i < num_words; i += NumThreads())
    StoreTouchedWord(words, num_bytes, section, i);
}
__device__ inline void StoreByWarp(const uint32_t* words, uint64_t num_bytes,
                                   unsigned char* section) {
  const uint64_t num_words = NumTouchedWords(section, num_bytes);
  for (uint64_t i = ThisLane(); i < num_words; i += kWarpThreads)
    StoreTouchedWord(words, num_bytes, section, i);
}

// Returns the i-th four bytes of a section of so many, as far as there are any, and zeros. Loads
// whole words but at the end; the first may begin before the section, with bytes of its frame.
__device__ inline uint32_t LoadWord(const unsigned char* section, uint64_t num_bytes, uint64_t i) {
  const auto lead = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(section) % 4);
  const uint32_t needed = lead > 0 ? 8 - lead : 4;  // Bytes up to the end of the last word read.
  if (i * 4 + needed <= num_bytes) {
    const auto* const from = reinterpret_cast<const uint32_t*>(section - lead) + i;
    return lead > 0 ? from[0] >> (8 * lead) | from[1] << (32 - 8 * lead) : from[0];
  }
  uint32_t word = 0;
  for (uint64_t byte = i * 4; byte < num_bytes && byte < i * 4 + 4; ++byte)
    word |= static_cast<uint32_t>(section[byte]) << (8 * (byte % 4));
  return word;
}

// Stores the i-th word of a section of so many bytes that is aligned to words, as far as it has it.
__device__ inline void StoreWord(uint32_t word, uint64_t num_bytes, unsigned char* section,
                                 uint64_t i) {
  if (i * 4 + 4 <= num_bytes) {
    reinterpret_cast<uint32_t*>(section)[i] = word;
    return;
  }
  for (uint64_t byte = i * 4; byte < num_bytes; ++byte)
    section[byte] = static_cast<unsigned char>(word >> (8 * (byte % 4)));
}

// Loads bytes into words, by all threads of a grid; fills the last words with zeros.
__device__ inline void LoadBytes(const unsigned char* section, uint64_t num_bytes,
                                 uint64_t num_words, uint32_t* words) {
  for (uint64_t i = ThisThread(); i < num_words; i += NumThreads())
    words[i] = LoadWord(section, num_bytes, i);
}

// Loads bytes into as many words as they need, by the lanes of a warp.
__device__ inline void LoadByWarp(const unsigned char* section, uint32_t num_bytes,
                                  uint32_t* words) {
  constexpr uint32_t kAtOnce = 4;  // Words that a lane loads before it stores the first.
  for (uint32_t first = ThisLane(); first * 4 < num_bytes; first += kAtOnce * kWarpThreads) {
    uint32_t loaded[kAtOnce];
    for (uint32_t j = 0; j < kAtOnce; ++j)
      loaded[j] = LoadWord(section, num_bytes, first + j * kWarpThreads);
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint32_t i = first + j * kWarpThreads;
      if (i * 4 < num_bytes) words[i] = loaded[j];
    }
  }
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_RAW_BYTES_H_
