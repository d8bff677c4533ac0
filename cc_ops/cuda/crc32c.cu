#include "cuda/checksum_kernel.h"
#include "cuda/crc32c.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"

namespace tfcompress {
namespace device {
namespace {

struct CheckedFrames {
  const CheckedFrame* frames_dev;
  uint32_t bits;

  __device__ const CheckedFrame& Frame() const { return frames_dev[blockIdx.y]; }
  __device__ FrameBytes Bytes() const { return Frame().bytes; }
  __device__ SectionRemainder* Remainder() const { return Frame().remainder_dev; }
  __device__ void Finish(const CrcShift& shift) const {
    const FrameBytes& bytes = Frame().bytes;
    const auto written = LoadAt<uint32_t>(bytes.data_dev + kChecksumOffset, 0);
    if (written != FrameChecksum(bytes.data_dev, bytes.num_bytes, Remainder()->crc, shift))
      atomicOr(Frame().error_dev, bits);
  }
};

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

Status CheckChecksums(const Parts<CheckedFrame>& frames, const CrcShift& shift, uint32_t bits,
                      cudaStream_t stream) {
  const PartItems threads = CountItems(
      frames.on_host, [](const CheckedFrame& frame) { return RemainderThreads(frame.bytes); });
  return LaunchParts("check checksums", ChecksumKernel<CheckedFrames>, threads, frames.size(),
                     stream, CheckedFrames{frames.data_dev, bits}, shift);
}

}  // namespace device
}  // namespace tfcompress
