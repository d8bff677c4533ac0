// Inputs and outputs of the ops of the sharded exchange, the same on every device.
#ifndef TFCOMPRESS_TF_SHARD_IO_H_
#define TFCOMPRESS_TF_SHARD_IO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "core/pieces.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/kept_outputs.h"
#include "tf/slot_vectors.h"

namespace tfcompress {

// Of EncodePieces. Gradient and slots are in the memory of the kernel's device.
struct PieceInputs {
  std::shared_ptr<const Compressor> compressor;
  Span<const float> gradient;
  Grid grid;  // The gradient's shape.
  std::vector<int64_t> cuts;
  int32_t own = 0;
  uint64_t seed = 0;
  SlotVectors slots;

  size_t num_ranks() const { return cuts.empty() ? 0 : cuts.size() - 1; }
};

// Reads the inputs, and allocates the new slots.
absl::Status ReadPieceInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                             GradientBuffer gradient_buffer, PieceInputs* inputs);
// Sets the outputs between the frames and the slots.
absl::Status OutputPieceCounts(tensorflow::OpKernelContext* ctx,
                               const std::vector<int64_t>& num_bytes, int64_t num_sent,
                               int64_t nanoseconds);

// Of EncodeSum. All vectors are of the piece, in the memory of the kernel's device.
struct OwnPieceInputs {
  std::shared_ptr<const Compressor> compressor;
  uint64_t n = 0;
  const float* gradient = nullptr;  // Read if there are no slots.
  std::vector<float*> slots;        // Outputs, to update in place.
  tensorflow::Tensor others;        // To add to if there are no slots.
  Grid grid;
  uint64_t seed = 0;
};

// Copies all elements of a tensor to another one.
using CopyTensor = std::function<absl::Status(const tensorflow::Tensor& from, void* to)>;

// Reads the inputs, and makes the outputs of them, by `copy` where someone else holds them.
absl::Status ReadOwnPieceInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                                const CopyTensor& copy, OwnPieceInputs* inputs);

// Of SumPieces: the sums of the pieces that have elements, and which tensors these are of.
struct OwnSums {
  PacketsView packets;
  std::vector<SumTarget> targets;
  std::vector<int64_t> positions;  // Of the targets in each packet.
  std::vector<size_t> tensors;     // Of the targets.
  size_t num_tensors = 0;

  // Whether there is no other rank, as may come to be in an elastic job: all sums are zeros.
  bool is_alone() const { return packets.num_ranks == 1 && packets.bytes.empty(); }
};

// Reads the inputs, and allocates the sums; `kept` may be null.
absl::Status ReadOwnSums(tensorflow::OpKernelContext* ctx, KeptOutputs* kept, OwnSums* sums);
// Sets the outputs after the sums: `stats` are those of the targets.
absl::Status OutputOwnStats(tensorflow::OpKernelContext* ctx, const OwnSums& sums,
                            const std::vector<DecodeStats>& stats, const Bytes& error);

// Of DecodePieces.
struct CutSums {
  ByteSpan packets;
  float scale = 0;
  std::vector<SumTarget> targets;
  std::vector<CutTensor> tensors;  // The same, with their cuts.

  // At least as many as there are frames.
  uint64_t num_pieces() const {
    return tensors.empty() ? 0 : tensors.size() * (tensors[0].cuts.size() - 1);
  }
};

// Reads the inputs, and allocates the sums; `kept` may be null.
absl::Status ReadCutSums(tensorflow::OpKernelContext* ctx, KeptOutputs* kept, CutSums* sums);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SHARD_IO_H_
