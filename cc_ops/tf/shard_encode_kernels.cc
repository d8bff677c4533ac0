// Both encodings of the sharded exchange: pieces of the own gradient, and sums of the own piece.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/pieces.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/encode_io.h"
#include "tf/frame_pool.h"
#include "tf/pool_executor.h"
#include "tf/shard_io.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status CopyOnHost(const Tensor& from, void* to) {
  std::memcpy(to, from.data(), from.TotalBytes());
  return absl::OkStatus();
}

class EncodePiecesKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    PieceInputs in;
    OP_REQUIRES_OK(ctx,
                   ReadPieceInputs(ctx, &compressors_, GradientBuffer::kBecomesFirstSlot, &in));
    std::vector<int64_t> num_bytes(in.num_ranks());
    PieceCounts counts{Span<int64_t>(num_bytes)};
    PoolExecutor executor(ctx);
    Bytes frames = frames_->Take();
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(EncodePieces(*in.compressor, in.gradient, in.cuts, in.own,
                                                  in.slots.slots(), {in.seed, &executor, in.grid},
                                                  &frames, &counts)));
    const int64_t nanoseconds = stopwatch.nanoseconds();
    FramePool::Output(frames_, ctx, std::move(frames));
    OP_REQUIRES_OK(ctx, OutputPieceCounts(ctx, num_bytes, counts.num_sent, nanoseconds));
  }

 private:
  CompressorCache compressors_;
  const std::shared_ptr<FramePool> frames_ = FramePool::Make();
};

class EncodeSumKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OwnPieceInputs in;
    OP_REQUIRES_OK(ctx, ReadOwnPieceInputs(ctx, &compressors_, CopyOnHost, &in));
    int64_t num_sent = 0;
    PoolExecutor executor(ctx);
    Bytes frame = frames_->Take();
    const Stopwatch stopwatch;
    if (in.n > 0) {
      const Span<float> piece(in.others.flat<float>().data(), in.n);
      OP_REQUIRES_OK(ctx,
                     ToTensorFlow(EncodeSum(*in.compressor, in.gradient, in.slots, piece,
                                            {in.seed, &executor, in.grid}, &frame, &num_sent)));
    }
    const int64_t nanoseconds = stopwatch.nanoseconds();
    FramePool::Output(frames_, ctx, std::move(frame));
    OP_REQUIRES_OK(ctx, OutputFrameCounts(ctx, num_sent, nanoseconds));
  }

 private:
  CompressorCache compressors_;
  const std::shared_ptr<FramePool> frames_ = FramePool::Make();
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>EncodePieces").Device(tensorflow::DEVICE_CPU),
                        EncodePiecesKernel);
REGISTER_KERNEL_BUILDER(Name("Tfcompress>EncodeSum").Device(tensorflow::DEVICE_CPU),
                        EncodeSumKernel);

}  // namespace
}  // namespace tfcompress
