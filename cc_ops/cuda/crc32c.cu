#include "cuda/crc32c.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"
#include "cuda/section_remainder.h"

namespace tfcompress {
namespace device {
namespace {

struct CheckedFrames {
  __device__ FrameBytes Bytes() const { return frames_dev[blockIdx.y].bytes; }
  __device__ uint32_t* Remainder() const { return frames_dev[blockIdx.y].remainder_dev; }

  const CheckedFrame* frames_dev;
};

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

Status CheckChecksums(const Parts<CheckedFrame>& frames, const CrcShift& shift, uint32_t bits,
                      cudaStream_t stream) {
  const PartItems threads = CountItems(
      frames.on_host, [](const CheckedFrame& frame) { return RemainderThreads(frame.bytes); });
  TFC_RETURN_IF_ERROR(LaunchParts("section remainders", SectionRemainderKernel<CheckedFrames>,
                                  threads, frames.size(), stream, CheckedFrames{frames.data_dev},
                                  shift));
  return LaunchThreads("check checksums", CheckChecksumsKernel, frames.size(), stream,
                       frames.data_dev, frames.size(), shift, bits);
}

}  // namespace device
}  // namespace tfcompress
