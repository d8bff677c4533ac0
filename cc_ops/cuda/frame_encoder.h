// EncodeFrame on the device: writes the same bytes as core/pipeline.h for the same seed.
#ifndef TFCOMPRESS_CUDA_FRAME_ENCODER_H_
#define TFCOMPRESS_CUDA_FRAME_ENCODER_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/compressor.h"
#include "core/dtype.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/compensate.h"
#include "cuda/dense_vector.h"
#include "cuda/device_variants.h"
#include "cuda/encode_state.h"
#include "cuda/frame_layout.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Encodes tensors of one type and size under one compressor. Immutable: one encoder serves several
// streams, with a workspace for each.
class FrameEncoder {
 public:
  // Fails with InvalidArgument if a part of the spec has no device variant (the message names it)
  // or if the tensor is too large for any frame.
  static Result<FrameEncoder> Make(const Compressor& compressor, DType dtype, uint64_t n,
                                   MemoryRule rule = MemoryRule::kOfGradient);

  uint64_t num_elements() const { return n_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  // Bytes that the buffer of a frame must have.
  uint64_t max_frame_bytes() const { return max_frame_bytes_; }

  // Compensates the n elements at gradient_dev, selects, encodes, and subtracts what was sent from
  // the memory, as EncodeFrame does. Writes the frame to frame.data_dev, at any alignment. `slots`
  // are those of the memory, in the core's order. Puts everything on `stream`, at its end a copy to
  // `state` on the host, from which ReadLength has the frame's length when the stream has come
  // there; waits for nothing if `state` is pinned. Fails with InvalidArgument, before anything is
  // launched, if a buffer or a slot is missing or too small. On failure the content of the buffers
  // and of the slots after the step is unspecified.
  Status Launch(const void* gradient_dev, Span<const DeviceSlot> slots, uint64_t seed,
                const DeviceBuffer& workspace, const DeviceBuffer& frame, cudaStream_t stream,
                EncodeState* state) const;
  // Fails with InvalidArgument if the frame would be too long.
  static Status ReadLength(const EncodeState& state, uint64_t* num_bytes);
  // Launches, waits for the stream once, and sets `num_bytes` to the length of the frame.
  Status Encode(const void* gradient_dev, Span<const DeviceSlot> slots, uint64_t seed,
                const DeviceBuffer& workspace, const DeviceBuffer& frame, cudaStream_t stream,
                uint64_t* num_bytes) const;

 private:
  struct Buffers;

  FrameEncoder() = default;
  bool selects_by_magnitude() const;
  bool needs_marks() const;
  bool moves_values() const;
  Status Take(Workspace* workspace, Buffers* buffers) const;
  Status CheckArguments(const void* gradient_dev, Span<const DeviceSlot> slots,
                        const DeviceBuffer& workspace, const DeviceBuffer& frame) const;
  Status Compensate(const Compensation& step, const Buffers& buffers, cudaStream_t stream) const;
  Status Select(const DenseVector& dense, uint64_t seed, const Buffers& buffers,
                cudaStream_t stream) const;
  // Removes from the support the elements that the value codec does not send.
  Status Narrow(const DenseVector& dense, const Buffers& buffers, cudaStream_t stream) const;
  // Sets the number of bytes that LayOut takes, and the part of the support that is sent.
  Status PrepareIndices(uint64_t seed, Buffers* buffers, const uint64_t** num_payload_bytes_dev,
                        cudaStream_t stream) const;
  // Sets the lengths that LayOut takes, of a joint codec or of the indices.
  Status PrepareSections(const DenseVector& dense, uint64_t seed, Buffers* buffers,
                         DataLengths* lengths, cudaStream_t stream) const;
  SelectedValues ValuesToSend(const DenseVector& dense, const Buffers& buffers) const;
  Status EncodeIndices(const Buffers& buffers, unsigned char* section_dev,
                       cudaStream_t stream) const;
  // Writes the sections, and subtracts their decoded values from the slots.
  Status EncodeSections(const Compensation& step, uint64_t seed, const Buffers& buffers,
                        unsigned char* frame_dev, cudaStream_t stream) const;

  DeviceSpec spec_;
  DType dtype_;
  uint32_t n_;
  uint32_t k_;         // 0 if it depends on the data.
  uint32_t max_k_;     // Upper bound of the support.
  uint32_t max_sent_;  // Upper bound of the sent elements: a Bloom filter adds some.
  SupportKind support_;
  uint8_t index_id_;
  uint8_t value_id_;
  size_t workspace_bytes_;
  uint64_t max_frame_bytes_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_ENCODER_H_
