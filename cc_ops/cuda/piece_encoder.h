// EncodePieces and EncodeSum on the device: write the same bytes as core/pieces.h.
#ifndef TFCOMPRESS_CUDA_PIECE_ENCODER_H_
#define TFCOMPRESS_CUDA_PIECE_ENCODER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/compressor.h"
#include "core/pieces.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/frame_encoder.h"
#include "cuda/memory_spec.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Encodes the pieces of tensors that are cut alike. Immutable: one encoder serves several streams,
// with a workspace for each.
class PieceEncoder {
 public:
  // The frame of the piece of a rank.
  struct PieceFrame {
    size_t rank;
    int64_t begin;    // Of the elements.
    uint64_t offset;  // Of its buffer among the frames.
  };

  // Fails with InvalidArgument for cuts that CheckCuts refuses, and as FrameEncoder::Make does.
  static Result<PieceEncoder> Make(const Compressor& compressor, const std::vector<int64_t>& cuts,
                                   int64_t own);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Bytes that the buffer of all frames must have.
  uint64_t max_frames_bytes() const { return max_frames_bytes_; }
  // The pieces that have a frame, in the order of their ranks: those of others that have elements.
  Span<const PieceFrame> frames() const { return frames_; }

  // Compensates the float32 elements at gradient_dev, and encodes the pieces of other ranks; see
  // EncodePieces. Writes frame i to frames.data_dev + frames()[i].offset. `slots` are those of the
  // memory, of the whole tensor. Puts everything on `stream`, with copies to states[i] on the host,
  // one for each frame, which Read takes when the stream has come there; waits for nothing if they
  // are pinned. Encodes the pieces side by side, with workspace for all at once. Fails with
  // InvalidArgument if a buffer or a slot is missing or too small.
  Status Launch(const float* gradient_dev, Span<const DeviceSlot> slots, uint64_t seed,
                const DeviceBuffer& workspace, const DeviceBuffer& frames, cudaStream_t stream,
                EncodeState* states) const;
  // Fails with InvalidArgument if a frame would be too long.
  Status Read(const EncodeState* states, PieceCounts* counts) const;

 private:
  PieceEncoder() = default;
  // Makes the own piece of the slots, finite or not.
  Status KeepOwn(const float* gradient_dev, Span<const DeviceSlot> slots,
                 const DeviceBuffer& workspace, cudaStream_t stream) const;

  uint64_t n_ = 0;
  MemorySpec memory_;
  int64_t own_begin_ = 0;
  uint32_t own_n_ = 0;
  std::vector<PieceFrame> frames_;
  std::optional<FrameEncoder> encoder_;  // Of the frames, if there are any.
  size_t workspace_bytes_ = 0;
  uint64_t max_frames_bytes_ = 0;
};

// Adds the rank's own part to what the others sent, for compressors without a memory: EncodeSum
// before it encodes. With a memory FrameEncoder does it, made with MemoryRule::kPlainSum.
Status AddOwnPart(const float* own_dev, uint64_t n, float* sums_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PIECE_ENCODER_H_
