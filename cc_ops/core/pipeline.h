// The two halves of a step: EncodeFrame before the exchange, DecodeSum after it.
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

// Compensates, selects, encodes, and subtracts what was sent from the memory; appends one frame to
// `frame`. `slots` are the memory's vectors, memory().num_slots() of n floats each. A gradient with
// NaN or Inf becomes a frame without values and leaves the slots unchanged. float32 gradients are
// read without a copy; others are widened to a copy of n floats.
// On failure the content of slots.after is unspecified and `frame` has its former length.
Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   const MemorySlots& slots, const CodecContext& context, Bytes* frame);

// The same with slots that are updated in place.
Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   Span<float* const> slots, const CodecContext& context, Bytes* frame);

// Decodes the frame of a dense tensor into `out`. Callers handle non-finite frames themselves, so
// `out` has no NaN. Checks the checksum first. Fails with DataLoss for a frame of rows: see rows.h.
Status DecodeFrame(const Frame& frame, Executor* executor, SparseTensor* out);

// For the frame of a dense tensor whose values are all sent, and decode apart from each other:
// checks the checksum and the section's length, and sets `decoder`. Leaves it empty for others.
Status OpenFrame(const Frame& frame, ChunkDecoder* decoder);

// The output for the sum of one tensor: n elements that DecodeSum overwrites.
struct SumTarget {
  void* data;
  DType dtype;
  uint64_t n;
};

// Decodes the frames of the targets, those at `positions` of every packet, and writes `scale` times
// the sum over ranks. Each element is summed in rank order, so every rank gets the same bits. A
// tensor that was non-finite on some rank becomes NaN in every element. Fails with DataLoss, naming
// rank and position, if any frame is broken or of another size; the targets' content is then
// unspecified. `stats` is empty or has one element for each target.
Status DecodeSum(const PacketsView& packets, Span<const int64_t> positions, float scale,
                 Span<const SumTarget> targets, Executor* executor, Span<DecodeStats> stats);

// A tensor whose pieces [cuts[r], cuts[r + 1]) the ranks r summed, each its own; see pieces.h. The
// cuts ascend from 0 to n, the number of elements of `sums`.
struct CutTensor {
  float* sums;
  Span<const int64_t> cuts;

  int64_t num_elements() const { return cuts[cuts.size() - 1]; }
};

// Decodes what the ranks summed: `packets` has, for each rank in order, the frames of its pieces of
// all tensors, in their order. Overwrites the tensors with `scale` times the sums. A tensor that
// was non-finite in some piece becomes NaN in every element. `stats` has one element for each
// tensor, and `cuts` the same number for all. Fails as DecodeSum does.
Status DecodePieces(ByteSpan packets, float scale, Span<const CutTensor> tensors,
                    Executor* executor, Span<DecodeStats> stats);

// The same as the first DecodeSum for packets that hold exactly the frames of all targets, in their
// order.
Status DecodeSum(ByteSpan packets, int num_ranks, float scale, Span<const SumTarget> targets,
                 Executor* executor, Span<DecodeStats> stats);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_PIPELINE_H_
