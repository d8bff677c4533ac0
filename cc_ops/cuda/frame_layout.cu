#include <cstring>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/entropy/delta_bytes.h"
#include "core/index/bloom_policy.h"
#include "cuda/checksum_kernel.h"
#include "cuda/crc32c.h"
#include "cuda/frame_layout.h"
#include "cuda/launch.h"
#include "cuda/launch_frames.h"
#include "cuda/write_parts.h"

namespace tfcompress {
namespace device {
namespace {

// These kernels use one thread for a frame: their work is negligible beside the launch.

__device__ EncodeState FirstState(uint32_t k, uint32_t min_magnitude) {
  EncodeState state{};
  state.k = k;
  state.num_wanted = k;
  state.min_magnitude = min_magnitude;
  return state;
}

__global__ void BeginStateKernel(uint32_t k, EncodeState* state) {
  if (ThisThread() == 0) *state = FirstState(k, 0);
}

struct BeginFrame {
  uint32_t min_magnitude;

  __device__ void operator()(const EncodedFrame& frame) const {
    *frame.state_dev = FirstState(frame.known_k, min_magnitude);
    if (frame.extremes_dev != nullptr) *frame.extremes_dev = {};
  }
};

__global__ void SetSupportSizesKernel(const EncodedFrame* frames, uint64_t num_frames,
                                      bool narrowed) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const Marks& marks = frames[i].marks;
    EncodeState* state = frames[i].state_dev;
    if (marks.n > 0 && (narrowed || frames[i].known_k == 0))
      state->k = static_cast<uint32_t>(marks.NumMarked());
    if (state->nonfinite != 0) state->k = 0;
  }
}

// Length of the index section of k > 0 indices.
__device__ uint64_t IndexBytes(IndexKind index, uint64_t k, uint64_t bitmap_bytes,
                               const uint64_t* num_payload_bytes) {
  switch (index) {
    case IndexKind::kImplied:
      return 0;
    case IndexKind::kRaw:
      return k * sizeof(uint32_t);
    case IndexKind::kBitmap:
      return bitmap_bytes;
    case IndexKind::kDeltaBinary:
      return NumFlagBytes(k) + *num_payload_bytes;
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      return *num_payload_bytes;
    case IndexKind::kBloom:
      return kBloomHeaderBytes + *num_payload_bytes;
  }
  return 0;
}

__global__ void LayOutKernel(const EncodedFrame* frames, uint64_t num_frames, IndexKind index,
                             ValueSpec value) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const DataLengths& lengths = frames[i].lengths;
    EncodeState* state = frames[i].state_dev;
    const uint64_t k = state->k;
    uint64_t num_index_bytes = 0, num_value_bytes = 0;
    if (k != 0) {
      num_index_bytes = IndexBytes(index, k, PackedBytes(frames[i].compensation.gradient.n, 1),
                                   lengths.num_payload_bytes_dev);
      num_value_bytes = lengths.num_value_bytes_dev == nullptr ? value.SectionBytes(k)
                                                               : *lengths.num_value_bytes_dev;
    }
    if (kFrameHeaderBytes + num_index_bytes + num_value_bytes > kMaxFrameBytes) {
      state->too_long = 1;
      state->k = 0;
      if (frames[i].list_size_dev != nullptr) *frames[i].list_size_dev = 0;
      num_index_bytes = num_value_bytes = 0;
    }
    state->num_index_bytes = static_cast<uint32_t>(num_index_bytes);
    state->num_value_bytes = static_cast<uint32_t>(num_value_bytes);
    state->num_bytes = kFrameHeaderBytes + num_index_bytes + num_value_bytes;
  }
}

TFC_HOST_DEVICE FrameBytes BytesOf(const EncodedFrame& frame) {
  return {frame.data_dev, frame.max_bytes, &frame.state_dev->num_bytes};
}

struct WrittenFrames {
  const EncodedFrame* frames_dev;

  __device__ const EncodedFrame& Frame() const { return frames_dev[blockIdx.y]; }
  __device__ FrameBytes Bytes() const { return BytesOf(Frame()); }
  __device__ SectionRemainder* Remainder() const { return &Frame().state_dev->sections; }
  // Writes the header.
  __device__ void Finish(const CrcShift& shift) const {
    const EncodeState& state = *Frame().state_dev;
    unsigned char* data = Frame().data_dev;
    WireHeader header = Frame().header;
    header.flags = state.nonfinite != 0 ? kFlagNonfinite : 0;
    header.k = state.k;
    header.num_bytes = static_cast<uint32_t>(state.num_bytes);
    header.num_index_bytes = state.num_index_bytes;
    header.num_value_bytes = state.num_value_bytes;
    memcpy(data, &header, kChecksumOffset);
    header.checksum = FrameChecksum(data, state.num_bytes, state.sections.crc, shift);
    StoreUnaligned(data + kChecksumOffset, header.checksum);
  }
};

}  // namespace

Status BeginState(uint32_t k, EncodeState* state_dev, cudaStream_t stream) {
  return Launch("begin state", BeginStateKernel, 1, kWarpThreads, stream, k, state_dev);
}

Status BeginFrames(Span<const EncodedFrame> frames, uint32_t min_magnitude,
                   EncodedFrame* frames_dev, cudaStream_t stream) {
  return WriteParts("begin frames", frames, BeginFrame{min_magnitude}, frames_dev, stream);
}

Status SetSupportSizes(const Parts<EncodedFrame>& frames, bool narrowed, cudaStream_t stream) {
  return LaunchThreads("set support sizes", SetSupportSizesKernel, frames.size(), stream,
                       frames.data_dev, frames.size(), narrowed);
}

Status LayOut(const Parts<EncodedFrame>& frames, IndexKind index, const ValueSpec& value,
              cudaStream_t stream) {
  return LaunchThreads("lay out", LayOutKernel, frames.size(), stream, frames.data_dev,
                       frames.size(), index, value);
}

Status FinishFrames(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  const auto threads = [](const EncodedFrame& frame) { return RemainderThreads(BytesOf(frame)); };
  return LaunchParts("finish frames", ChecksumKernel<WrittenFrames>,
                     CountFrameItems(frames, threads), frames.size(), stream,
                     WrittenFrames{frames.data_dev}, CrcShift());
}

}  // namespace device
}  // namespace tfcompress
