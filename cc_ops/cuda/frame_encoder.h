// EncodeFrame on the device: writes the same bytes as core/pipeline.h for the same seed.
#ifndef TFCOMPRESS_CUDA_FRAME_ENCODER_H_
#define TFCOMPRESS_CUDA_FRAME_ENCODER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/compressor.h"
#include "core/dtype.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/device_variants.h"
#include "cuda/encode_state.h"
#include "cuda/frame_copies.h"
#include "cuda/memory_spec.h"
#include "cuda/workspace.h"

namespace tfcompress {

struct WireHeader;

namespace device {

// A vector to encode, with the slots of its memory, in the core's order.
struct FrameInput {
  const void* gradient_dev;
  Span<const DeviceSlot> slots;
  uint64_t seed;
  DeviceBuffer frame;  // Where the frame is written to, at any alignment.
};

// Encodes tensors of one type under one compressor, side by side. Its workspace has room for all at
// once. Immutable: one encoder serves several streams, with a workspace for each.
class FrameEncoder {
 public:
  // Most bytes of a workspace, or Workspace::kMostBytesAnElement if that is more.
  static constexpr uint64_t kMostWorkspaceBytes = uint64_t{1} << 30;

  // For tensors of these sizes. Fails with InvalidArgument if a part of the spec has no device
  // variant (the message names it), if a tensor is too large for any frame, if there are none or
  // more than kMaxParts (half as many with a joint codec), if they may select or sort 2^32 elements
  // or more together, if the workspace would be too large, or if the build has no code for the
  // current device.
  static Result<FrameEncoder> Make(const Compressor& compressor, DType dtype,
                                   Span<const uint64_t> sizes,
                                   MemoryRule rule = MemoryRule::kOfGradient);
  static Result<FrameEncoder> Make(const Compressor& compressor, DType dtype, uint64_t n,
                                   MemoryRule rule = MemoryRule::kOfGradient);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Bytes that the buffer of a tensor's frame must have.
  uint64_t max_frame_bytes(size_t tensor = 0) const { return tensors_[tensor].max_frame_bytes; }

  // For each tensor: compensates its elements, selects, encodes, and subtracts what was sent from
  // the memory, as EncodeFrame does. Puts everything on `stream`, at its end a copy to `states` on
  // the host, one for each tensor, from which ReadLength has the frame's length when the stream has
  // come there; waits for nothing if they are pinned. Fails with InvalidArgument, before anything
  // is launched, if there is not an input for each tensor, or if a buffer or a slot is missing or
  // too small. On failure the content of the buffers and of the slots after the step is
  // unspecified.
  Status Launch(Span<const FrameInput> inputs, const DeviceBuffer& workspace, cudaStream_t stream,
                EncodeState* states) const;
  // Fails with InvalidArgument if the frame would be too long.
  static Status ReadLength(const EncodeState& state, uint64_t* num_bytes);
  // Copies the frames that Launch wrote with this workspace to packets, one to each place. It may
  // follow Launch at once, on a stream that comes behind it. Fails with InvalidArgument if there is
  // not a place for each tensor.
  Status CopyFrames(Span<const FramePlace> places, PacketMemory memory,
                    const DeviceBuffer& workspace, cudaStream_t stream) const;
  // Launches for the only tensor, waits for the stream once, and sets `num_bytes` to the length of
  // the frame.
  Status Encode(const FrameInput& input, const DeviceBuffer& workspace, cudaStream_t stream,
                uint64_t* num_bytes) const;

 private:
  struct Tensor {
    uint32_t n;
    uint32_t k;         // 0 if it depends on the data.
    uint32_t max_k;     // Upper bound of the support.
    uint32_t max_sent;  // Upper bound of the sent elements: a Bloom filter adds some.
    uint64_t max_frame_bytes;
  };
  struct Encoding;

  // What each workspace begins with.
  struct Tables {
    EncodeState* states_dev;
    EncodedFrame* frames_dev;
  };

  FrameEncoder() = default;
  bool selects_by_magnitude() const;
  bool needs_marks() const;
  bool moves_values() const;
  bool encodes_in_one_pass() const;
  // Upper bound of the elements that all tensors select together; 0 if they send all they have.
  uint64_t MaxSelected() const;
  Status CheckWorkspace() const;
  Result<Tensor> Describe(const Compressor& compressor, uint64_t n) const;
  Tables TakeTables(Workspace* workspace) const;
  void TakeSelection(Workspace* workspace, Encoding* encoding) const;
  void TakeDeltas(Workspace* workspace, Encoding* encoding) const;
  Status TakeSketch(Workspace* workspace, Encoding* encoding) const;
  Status Take(Workspace* workspace, Encoding* encoding) const;
  Status CheckInputs(Span<const FrameInput> inputs, const DeviceBuffer& workspace) const;
  WireHeader HeaderOf(const Tensor& tensor, uint64_t seed) const;
  // Completes the frame of a tensor, after Take.
  void Begin(const FrameInput& input, size_t i, Encoding* encoding) const;

  // Runs the pass over the elements. It writes the compensated vectors, with a memory; where all is
  // encoded in one pass, it writes all that EncodeSections does instead.
  Status Compensate(const Encoding& encoding, cudaStream_t stream) const;
  Status MarkBySeeds(const Encoding& encoding, cudaStream_t stream) const;
  Status ListMarked(const Encoding& encoding, cudaStream_t stream) const;
  // Lists the supports and sets their sizes.
  Status Select(const Encoding& encoding, cudaStream_t stream) const;
  // Removes from the supports the elements that the value codec does not send.
  Status Narrow(const Encoding& encoding, cudaStream_t stream) const;
  // Finds the lengths of delta codes, and what receivers will decode from Bloom filters.
  Status MeasureIndices(const Encoding& encoding, cudaStream_t stream) const;
  // Finds what lengths of value sections follow from: sketches, and values that are measured.
  Status MeasureValues(const Encoding& encoding, cudaStream_t stream) const;
  // Writes the sections, and subtracts their decoded values from the slots.
  Status EncodeSections(const Encoding& encoding, cudaStream_t stream) const;
  Status EncodeIndices(const Encoding& encoding, cudaStream_t stream) const;

  DeviceSpec spec_;
  DType dtype_;
  SupportKind support_;
  uint8_t index_id_;
  uint8_t value_id_;
  std::vector<Tensor> tensors_;
  size_t workspace_bytes_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_ENCODER_H_
