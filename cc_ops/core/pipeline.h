// One step's two halves: EncodeFrame on the way out, DecodeSum on the way in.
#ifndef TFCOMPRESS_CORE_PIPELINE_H_
#define TFCOMPRESS_CORE_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "core/compressor.h"
#include "core/dtype.h"
#include "core/frame.h"
#include "core/packets.h"

namespace tfcompress {

// A borrowed dense gradient of n elements.
struct GradientView {
  const void* data;
  DType dtype;
  uint64_t n;
};

// Compensates, selects, encodes, and takes what was sent out of the memory; appends one frame to
// `frame`. `slots` are the memory's vectors, memory().num_slots() of n floats each. A gradient with
// NaN or Inf becomes a frame without values and leaves the slots as they were. float32 gradients
// are read where they lie; others are widened to a copy of n floats.
// On failure the content of slots.after is unspecified and `frame` is as long as before.
Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   const MemorySlots& slots, const CodecContext& context, Bytes* frame);

// The same with slots that are updated in place.
Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   Span<float* const> slots, const CodecContext& context, Bytes* frame);

// Fills `out` with what the frame of a dense tensor decodes to (NaN nowhere: a non-finite frame is
// the caller's case). Checks the checksum first. DataLoss for a frame of rows: see rows.h.
Status DecodeFrame(const Frame& frame, Executor* executor, SparseTensor* out);

// Where the sum of one tensor goes: n elements that DecodeSum overwrites.
struct SumTarget {
  void* data;
  DType dtype;
  uint64_t n;
};

// Decodes the frames of the targets, those at `positions` of every packet, and writes `scale` times
// the sum over ranks. The sum runs in rank order for each element, so every rank gets the same
// bits. A tensor that was non-finite on any rank comes out as NaN everywhere. Fails with DataLoss,
// naming rank and position, when any frame is broken or of another size; the targets' content is
// then unspecified. `stats` may be empty or have one element a target.
Status DecodeSum(const PacketsView& packets, Span<const int64_t> positions, float scale,
                 Span<const SumTarget> targets, Executor* executor, Span<DecodeStats> stats);

// The same for packets that hold nothing but the frames of all targets, in their order.
Status DecodeSum(ByteSpan packets, int num_ranks, float scale, Span<const SumTarget> targets,
                 Executor* executor, Span<DecodeStats> stats);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_PIPELINE_H_
