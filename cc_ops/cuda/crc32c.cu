#include <algorithm>

#include "cuda/crc32c.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// Words of a piece. A warp takes a piece, each lane every 32nd word of it.
constexpr uint32_t kPieceWords = 1024;
constexpr uint32_t kAtOnce = 8;

// Bytes of a row of the warp's words. The tables shift a remainder over a row, one byte of the
// remainder each.
constexpr uint32_t kRowBytes = kWarpThreads * sizeof(uint32_t);
constexpr uint32_t kNumTables = 4;
constexpr uint32_t kTableEntries = 256;

__device__ uint32_t ShiftOverRow(const uint32_t* tables, uint32_t remainder) {
  uint32_t shifted = 0;
  for (uint32_t byte = 0; byte < kNumTables; ++byte)
    shifted ^= tables[byte * kTableEntries + (remainder >> (8 * byte) & 0xFF)];
  return shifted;
}

// Loads the word at this address; bytes before the sections count as zeros.
__device__ uint32_t LoadSectionWord(uintptr_t address, const unsigned char* sections) {
  const uint32_t word = *reinterpret_cast<const uint32_t*>(address);
  const auto begin = reinterpret_cast<uintptr_t>(sections);
  return address >= begin ? word : word & 0xFFFFFFFFu << (8 * (begin - address));
}

// Pieces are counted from the end, so that only the first one may be short: zeros before a message
// do not change its remainder.
__global__ void __launch_bounds__(kBlockThreads)
    SectionRemainderKernel(FrameBytes frame, CrcShift shift, uint32_t* remainder) {
  __shared__ uint32_t tables[kNumTables * kTableEntries];
  for (uint32_t i = threadIdx.x; i < kNumTables * kTableEntries; i += blockDim.x)
    tables[i] = shift(i % kTableEntries << (8 * (i / kTableEntries)), kRowBytes);
  __syncthreads();

  const unsigned char* sections = frame.data_dev + kFrameHeaderBytes;
  const uintptr_t begin = WordOf(sections);
  const uintptr_t end = WordOf(frame.data_dev + frame.size());
  const int64_t num_words =
      end > begin ? static_cast<int64_t>((end - begin) / sizeof(uint32_t)) : 0;
  for (uint64_t piece = ThisWarp(); static_cast<int64_t>(piece * kPieceWords) < num_words;
       piece += NumWarps()) {
    const int64_t first = num_words - static_cast<int64_t>((piece + 1) * kPieceWords) + ThisLane();
    uint32_t own = 0;
    for (uint32_t row = 0; row < kPieceWords / kWarpThreads; row += kAtOnce) {
      uint32_t words[kAtOnce];
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const int64_t i = first + (row + j) * kWarpThreads;
        words[j] = i >= 0 ? LoadSectionWord(begin + static_cast<uint64_t>(i) * 4, sections) : 0;
      }
      for (uint32_t j = 0; j < kAtOnce; ++j) own = ShiftOverRow(tables, own) ^ words[j];
    }
    // Shift over the word's own four bytes and those of the lanes after this one.
    own = shift(own, (kWarpThreads - ThisLane()) * sizeof(uint32_t));
    const uint32_t whole = XorOfLanes(own);
    if (ThisLane() == 0) {
      atomicXor(remainder, shift(whole, piece * kPieceWords * sizeof(uint32_t)));
    }
  }
}

__global__ void CheckChecksumKernel(FrameBytes frame, CrcShift shift, const uint32_t* remainder,
                                    uint32_t bits, uint32_t* error) {
  if (ThisThread() != 0) return;
  const auto written = LoadAt<uint32_t>(frame.data_dev + kChecksumOffset, 0);
  if (written != FrameChecksum(frame.data_dev, frame.size(), *remainder, shift)) {
    atomicOr(error, bits);
  }
}

}  // namespace

CrcShift::CrcShift() {
  constexpr uint32_t kOne = 0x80000000u;
  uint32_t base = kOne >> 8;
  for (auto& powers : powers_) {
    powers[0] = kOne;
    for (int value = 1; value < 16; ++value)
      powers[value] = MultiplyModPolynomial(powers[value - 1], base);
    base = MultiplyModPolynomial(powers[15], base);
  }
}

Status AddSectionRemainder(const FrameBytes& frame, const CrcShift& shift, uint32_t* remainder_dev,
                           cudaStream_t stream) {
  // One word more, in case the sections begin within a word.
  const uint64_t num_words = frame.num_bytes / sizeof(uint32_t) + 1;
  return LaunchWarps("section remainder", SectionRemainderKernel, CeilDiv(num_words, kPieceWords),
                     stream, frame, shift, remainder_dev);
}

Status CheckChecksum(const FrameBytes& frame, const CrcShift& shift, const uint32_t* remainder_dev,
                     uint32_t bits, uint32_t* error_dev, cudaStream_t stream) {
  return Launch("check checksum", CheckChecksumKernel, 1, kWarpThreads, stream, frame, shift,
                remainder_dev, bits, error_dev);
}

}  // namespace device
}  // namespace tfcompress
