// A kernel that computes the checksums of frames; see crc32c.h.
#ifndef TFCOMPRESS_CUDA_CHECKSUM_KERNEL_H_
#define TFCOMPRESS_CUDA_CHECKSUM_KERNEL_H_

#include <cstdint>

#include "core/frame.h"
#include "core/host_device.h"
#include "cuda/ceil_div.h"
#include "cuda/crc32c.h"
#include "cuda/last_block.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {

// Words of a piece. A warp takes a piece, each lane every 32nd word of it.
inline constexpr uint32_t kPieceWords = 1024;
inline constexpr uint32_t kWordsAtOnce = 8;

// Bytes of a row of the warp's words.
inline constexpr uint32_t kRowBytes = kWarpThreads * sizeof(uint32_t);

// The tables shift a remainder over a row, four bits of the remainder each. Every lane has its own,
// in a bank of shared memory: lanes that look up different entries do not wait for each other.
struct RowShift {
  static constexpr uint32_t kDigits = 8, kValues = 16;
  static_assert(kDigits == kBlockWarps);
  uint32_t entries[kDigits][kValues][kWarpThreads];

  // Called by all threads of the block: a warp makes a table.
  __device__ void Make(const CrcShift& shift) {
    const uint32_t digit = threadIdx.x / kWarpThreads;
    const uint32_t own = shift(ThisLane() % kValues << (4 * digit), kRowBytes);
    for (uint32_t value = 0; value < kValues; ++value)
      entries[digit][value][ThisLane()] = __shfl_sync(kAllLanes, own, static_cast<int>(value));
    __syncthreads();
  }
  __device__ uint32_t operator()(uint32_t remainder) const {
    uint32_t shifted = 0;
    for (uint32_t digit = 0; digit < kDigits; ++digit)
      shifted ^= entries[digit][remainder >> (4 * digit) & (kValues - 1)][ThisLane()];
    return shifted;
  }
};

// Loads the word that holds the first byte of the sections; bytes before them, which may not be
// written yet, count as zeros.
__device__ inline uint32_t LoadFirstWord(const unsigned char* sections) {
  const auto lead = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(sections) % sizeof(uint32_t));
  return LoadWord(sections, sizeof(uint32_t) - lead, 0) << (8 * lead);
}

// Pieces of a frame, one word more in case the sections begin within a word; an upper bound.
TFC_HOST_DEVICE inline uint64_t NumPieces(const FrameBytes& frame) {
  return CeilDiv(frame.num_bytes / sizeof(uint32_t) + 1, kPieceWords);
}

// Adds the remainders of the whole words of sections to those that are 0 before, and then lets one
// thread finish each frame: frames.Bytes(), Remainder() and Finish() are those of the frame of a
// block. Pieces are counted from the end, so that only the first one may be short: zeros before a
// message do not change its remainder.
template <typename Frames>
__global__ void __launch_bounds__(kBlockThreads) ChecksumKernel(Frames frames, CrcShift shift) {
  const FrameBytes frame = frames.Bytes();
  SectionRemainder* const remainder = frames.Remainder();
  const unsigned char* sections = frame.data_dev + kFrameHeaderBytes;
  const uintptr_t begin = WordOf(sections);
  const uintptr_t end = WordOf(frame.data_dev + frame.size());
  const int64_t num_words =
      end > begin ? static_cast<int64_t>((end - begin) / sizeof(uint32_t)) : 0;
  const uint64_t num_pieces = CeilDiv(static_cast<uint64_t>(num_words), kPieceWords);
  const uint32_t num_blocks = NumBusyBlocks(num_pieces * kWarpThreads);
  if (blockIdx.x >= num_blocks) return;
  const auto* const section_words = reinterpret_cast<const uint32_t*>(begin);
  const uint32_t first_word = num_words > 0 ? LoadFirstWord(sections) : 0;
  __shared__ RowShift shift_over_row;
  shift_over_row.Make(shift);
  for (uint64_t piece = ThisWarp(); static_cast<int64_t>(piece * kPieceWords) < num_words;
       piece += NumWarps()) {
    const int64_t first = num_words - static_cast<int64_t>((piece + 1) * kPieceWords) + ThisLane();
    uint32_t own = 0;
    for (uint32_t row = 0; row < kPieceWords / kWarpThreads; row += kWordsAtOnce) {
      uint32_t words[kWordsAtOnce];
      for (uint32_t j = 0; j < kWordsAtOnce; ++j) {
        const int64_t i = first + (row + j) * kWarpThreads;
        words[j] = i > 0 ? section_words[i] : i == 0 ? first_word : 0;
      }
      for (uint32_t j = 0; j < kWordsAtOnce; ++j) own = shift_over_row(own) ^ words[j];
    }
    // Shift over the word's own four bytes and those of the lanes after this one.
    own = shift(own, (kWarpThreads - ThisLane()) * sizeof(uint32_t));
    const uint32_t whole = XorOfLanes(own);
    if (ThisLane() == 0) {
      atomicXor(&remainder->crc, shift(whole, piece * kPieceWords * sizeof(uint32_t)));
    }
  }
  __shared__ uint32_t num_before;
  if (IsLastBlock(num_blocks, &remainder->num_done, &num_before) && threadIdx.x == 0)
    frames.Finish(shift);
}

// Threads that a frame has work for.
inline uint64_t RemainderThreads(const FrameBytes& frame) {
  return NumPieces(frame) * kWarpThreads;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CHECKSUM_KERNEL_H_
