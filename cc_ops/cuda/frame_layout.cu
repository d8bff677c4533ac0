#include "core/bit_io.h"
#include "core/entropy/delta_bytes.h"
#include "core/index/bloom_policy.h"
#include "cuda/frame_layout.h"
#include "cuda/launch.h"

namespace tfcompress {
namespace device {
namespace {

// These kernels use one thread each: their work is negligible beside the launch.

__global__ void BeginStateKernel(uint32_t k, uint32_t min_magnitude, EncodeState* state) {
  if (ThisThread() != 0) return;
  *state = {};
  state->k = k;
  state->num_wanted = k;
  state->min_magnitude = min_magnitude;
}

__global__ void SetSupportSizeKernel(const uint64_t* num_marked, EncodeState* state) {
  if (ThisThread() != 0) return;
  if (num_marked != nullptr) state->k = static_cast<uint32_t>(*num_marked);
  if (state->nonfinite != 0) state->k = 0;
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

__global__ void LayOutKernel(uint64_t bitmap_bytes, IndexKind index, ValueSpec value,
                             DataLengths lengths, uint64_t max_bytes, EncodeState* state) {
  if (ThisThread() != 0) return;
  const uint64_t k = state->k;
  uint64_t num_index_bytes = 0, num_value_bytes = 0;
  if (k != 0) {
    num_index_bytes = IndexBytes(index, k, bitmap_bytes, lengths.num_payload_bytes_dev);
    num_value_bytes = lengths.num_value_bytes_dev == nullptr ? value.SectionBytes(k)
                                                             : *lengths.num_value_bytes_dev;
  }
  if (kFrameHeaderBytes + num_index_bytes + num_value_bytes > max_bytes) {
    state->too_long = 1;
    state->k = 0;
    num_index_bytes = num_value_bytes = 0;
  }
  state->num_index_bytes = static_cast<uint32_t>(num_index_bytes);
  state->num_value_bytes = static_cast<uint32_t>(num_value_bytes);
  state->num_bytes = kFrameHeaderBytes + num_index_bytes + num_value_bytes;
}

__global__ void FinishFrameKernel(WireHeader header, CrcShift shift, const EncodeState* state,
                                  unsigned char* frame) {
  if (ThisThread() != 0) return;
  header.flags = state->nonfinite != 0 ? kFlagNonfinite : 0;
  header.k = state->k;
  header.num_bytes = static_cast<uint32_t>(state->num_bytes);
  header.num_index_bytes = state->num_index_bytes;
  header.num_value_bytes = state->num_value_bytes;
  memcpy(frame, &header, kChecksumOffset);
  header.checksum = FrameChecksum(frame, state->num_bytes, state->section_crc, shift);
  StoreUnaligned(frame + kChecksumOffset, header.checksum);
}

}  // namespace

Status BeginState(uint32_t k, uint32_t min_magnitude, EncodeState* state_dev, cudaStream_t stream) {
  return Launch("begin state", BeginStateKernel, 1, kWarpThreads, stream, k, min_magnitude,
                state_dev);
}

Status SetSupportSize(const uint64_t* num_marked_dev, EncodeState* state_dev, cudaStream_t stream) {
  return Launch("set support size", SetSupportSizeKernel, 1, kWarpThreads, stream, num_marked_dev,
                state_dev);
}

Status LayOut(uint32_t n, IndexKind index, const ValueSpec& value, const DataLengths& lengths,
              uint64_t max_bytes, EncodeState* state_dev, cudaStream_t stream) {
  return Launch("lay out", LayOutKernel, 1, kWarpThreads, stream, PackedBytes(n, 1), index, value,
                lengths, max_bytes, state_dev);
}

Status FinishFrame(const WireHeader& header, uint64_t max_bytes, EncodeState* state_dev,
                   unsigned char* frame_dev, cudaStream_t stream) {
  const CrcShift shift;
  const FrameBytes frame = {frame_dev, max_bytes, &state_dev->num_bytes};
  TFC_RETURN_IF_ERROR(AddSectionRemainder(frame, shift, &state_dev->section_crc, stream));
  return Launch("finish frame", FinishFrameKernel, 1, kWarpThreads, stream, header, shift,
                state_dev, frame_dev);
}

}  // namespace device
}  // namespace tfcompress
