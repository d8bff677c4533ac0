// Bit strings in aligned words: bit b of a string is bit b % 32 of word b / 32.
#ifndef TFCOMPRESS_CUDA_BIT_WORDS_H_
#define TFCOMPRESS_CUDA_BIT_WORDS_H_

#include <cstdint>

#include "cuda/warp.h"

namespace tfcompress {
namespace device {

// Readable words after the last one with bits: PeekBits reads three words.
inline constexpr uint64_t kPaddingWords = 2;

// The 64 bits from `position` on.
__device__ inline uint64_t PeekBits(const uint32_t* words, uint64_t position) {
  const uint32_t* from = words + position / 32;
  const auto shift = static_cast<uint32_t>(position % 32);
  const uint64_t low = from[0] | static_cast<uint64_t>(from[1]) << 32;
  const uint64_t high = static_cast<uint64_t>(from[2]) << 32;
  return low >> shift | high << (32 - shift);
}

// Whether the bits from `position` to the end of its byte are zero.
__device__ inline bool EndsItsByte(const uint32_t* words, uint64_t position) {
  const auto rest = static_cast<uint32_t>(-position % 8);
  return (words[position / 32] >> position % 32 & ((1u << rest) - 1)) == 0;
}

// Sets bits of words that are zero there. Safe for several threads on one word.
__device__ inline void OrBits(uint32_t* words, uint64_t position, uint64_t bits) {
  uint32_t* to = words + position / 32;
  const auto shift = static_cast<uint32_t>(position % 32);
  const uint64_t low = bits << shift;
  const auto high = static_cast<uint32_t>(bits >> 32 >> (32 - shift));
  const auto first = static_cast<uint32_t>(low);
  const auto second = static_cast<uint32_t>(low >> 32);
  if (first != 0) atomicOr(&to[0], first);
  if (second != 0) atomicOr(&to[1], second);
  if (high != 0) atomicOr(&to[2], high);
}

// Maximum bits of each code that WriteRow takes.
inline constexpr uint32_t kMaxRowCodeBits = 48;
inline constexpr uint32_t kRowWords = kWarpThreads * kMaxRowCodeBits / 32 + 1;

// Writes the codes of all lanes end to end, from bit `begin` of words that are zero there, and
// returns their total number of bits. `row` is shared memory of this warp, kRowWords words.
__device__ inline uint32_t WriteRow(uint64_t bits, uint32_t num_bits, uint64_t begin, uint32_t* row,
                                    uint32_t* words) {
  const uint32_t up_to_own = InclusiveSum(num_bits);
  const uint32_t sum = __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
  for (uint32_t i = ThisLane(); i < kRowWords; i += kWarpThreads) row[i] = 0;
  __syncwarp();
  const auto first = static_cast<uint32_t>(begin % 32);
  OrBits(row, first + up_to_own - num_bits, bits);
  __syncwarp();
  for (uint32_t i = ThisLane(); i * 32 < first + sum; i += kWarpThreads) {
    if (row[i] != 0) atomicOr(&words[begin / 32 + i], row[i]);
  }
  __syncwarp();
  return sum;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BIT_WORDS_H_
