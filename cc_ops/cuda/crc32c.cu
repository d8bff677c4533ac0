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

// Pieces of a frame, one word more in case the sections begin within a word; an upper bound.
TFC_HOST_DEVICE uint64_t NumPieces(const FrameBytes& frame) {
  return CeilDiv(frame.num_bytes / sizeof(uint32_t) + 1, kPieceWords);
}

struct OneFrame {
  __device__ FrameBytes Bytes() const { return bytes; }
  __device__ uint32_t* Remainder() const { return remainder_dev; }

  FrameBytes bytes;
  uint32_t* remainder_dev;
};

struct FrameOfBlock {
  __device__ FrameBytes Bytes() const { return frames_dev[blockIdx.y].bytes; }
  __device__ uint32_t* Remainder() const { return frames_dev[blockIdx.y].remainder_dev; }

  const CheckedFrame* frames_dev;
};

// Pieces are counted from the end, so that only the first one may be short: zeros before a message
// do not change its remainder.
template <typename Frames>
__global__ void __launch_bounds__(kBlockThreads)
    SectionRemainderKernel(Frames frames, CrcShift shift) {
  const FrameBytes frame = frames.Bytes();
  uint32_t* remainder = frames.Remainder();
  __shared__ uint32_t tables[kNumTables * kTableEntries];
  if (blockIdx.x * kBlockWarps >= NumPieces(frame)) return;
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

// One thread per frame.
__global__ void CheckChecksumsKernel(const CheckedFrame* frames, uint64_t num_frames,
                                     CrcShift shift, uint32_t bits) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const FrameBytes& bytes = frames[i].bytes;
    const auto written = LoadAt<uint32_t>(bytes.data_dev + kChecksumOffset, 0);
    const uint32_t remainder = *frames[i].remainder_dev;
    if (written != FrameChecksum(bytes.data_dev, bytes.num_bytes, remainder, shift))
      atomicOr(frames[i].error_dev, bits);
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
  return LaunchWarps("section remainder", SectionRemainderKernel<OneFrame>, NumPieces(frame),
                     stream, OneFrame{frame, remainder_dev}, shift);
}

Status CheckChecksums(const Parts<CheckedFrame>& frames, const CrcShift& shift, uint32_t bits,
                      cudaStream_t stream) {
  const PartItems threads = CountItems(frames.on_host, [](const CheckedFrame& frame) {
    return NumPieces(frame.bytes) * kWarpThreads;
  });
  TFC_RETURN_IF_ERROR(LaunchParts("section remainders", SectionRemainderKernel<FrameOfBlock>,
                                  threads, frames.size(), stream, FrameOfBlock{frames.data_dev},
                                  shift));
  return LaunchThreads("check checksums", CheckChecksumsKernel, frames.size(), stream,
                       frames.data_dev, frames.size(), shift, bits);
}

}  // namespace device
}  // namespace tfcompress
