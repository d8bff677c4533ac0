// Both encodings of the sharded exchange: pieces of the own gradient, and sums of the own piece.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/pieces.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/encode_io.h"
#include "tf/frame_pool.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/slot_vectors.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class EncodePiecesKernel : public tensorflow::OpKernel {
 public:
  explicit EncodePiecesKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<const Compressor> compressor;
    uint64_t seed = 0;
    OP_REQUIRES_OK(ctx, ReadSpec(ctx, &compressors_, &compressor, &seed));
    const Tensor* cuts;
    int32_t own = 0;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "cuts", &cuts));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "own", &own));
    SlotVectors slots;
    constexpr int kNewSlots = 4;
    OP_REQUIRES_OK(ctx, AllocateSlots(ctx, compressor->memory(), compressor->spec(),
                                      GradientBuffer::kBecomesFirstSlot, kNewSlots, &slots));

    const Tensor& gradient = ctx->input(0);
    const Span<const float> elements = Floats(gradient);
    const Span<const int64_t> bounds(cuts->vec<int64_t>().data(),
                                     static_cast<size_t>(cuts->NumElements()));
    std::vector<int64_t> num_bytes(bounds.empty() ? 0 : bounds.size() - 1);
    PieceCounts counts{Span<int64_t>(num_bytes)};
    PoolExecutor executor(ctx);
    const CodecContext context{seed, &executor, GridOf(gradient)};
    Bytes frames = frames_->Take();
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(EncodePieces(*compressor, elements, bounds, own, slots.slots(),
                                                  context, &frames, &counts)));
    const int64_t nanoseconds = stopwatch.nanoseconds();
    FramePool::Output(frames_, ctx, std::move(frames));
    OP_REQUIRES_OK(ctx, OutputVector<int64_t>(ctx, 1, num_bytes));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 2, counts.num_sent));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 3, nanoseconds));
  }

 private:
  CompressorCache compressors_;
  const std::shared_ptr<FramePool> frames_ = FramePool::Make();
};

class EncodeSumKernel : public tensorflow::OpKernel {
 public:
  explicit EncodeSumKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<const Compressor> compressor;
    uint64_t seed = 0;
    OP_REQUIRES_OK(ctx, ReadSpec(ctx, &compressors_, &compressor, &seed));
    OpInputList own;
    OP_REQUIRES_OK(ctx, ctx->input_list("own", &own));
    const Tensor* others;
    int64_t begin = 0;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "others", &others));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "begin", &begin));
    const int64_t count = others->NumElements();
    for (const Tensor& tensor : own) {
      OP_REQUIRES(ctx, 0 <= begin && begin <= tensor.NumElements() - count,
                  absl::InvalidArgumentError(absl::StrCat("a piece of ", count, " elements from ",
                                                          begin, " on is not within ",
                                                          tensor.NumElements(), " elements")));
    }
    const int num_slots = ctx->num_outputs() - kFirstSlot;
    OP_REQUIRES(ctx, num_slots == compressor->memory().num_slots(),
                absl::InvalidArgumentError(
                    absl::StrCat("the memory of '", compressor->spec(), "' needs ",
                                 compressor->memory().num_slots(), " slots, got ", num_slots)));
    OP_REQUIRES(ctx, own.size() == std::max(num_slots, 1),
                absl::InvalidArgumentError(absl::StrCat("expected ", std::max(num_slots, 1),
                                                        " tensors as 'own', got ", own.size())));
    const float* gradient = own[0].flat<float>().data() + begin;
    std::vector<float*> slots(num_slots);
    for (int i = 0; i < num_slots; ++i) {
      OP_REQUIRES_OK(ctx, ForwardSlot(ctx, i, &slots[i]));
      slots[i] += begin;
    }
    Tensor sums;
    if (num_slots == 0) {
      OP_REQUIRES_OK(ctx, ForwardOthers(ctx, &sums));
    } else {
      sums = *others;
    }

    int64_t num_sent = 0;
    PoolExecutor executor(ctx);
    const CodecContext context{seed, &executor, GridOf(own[0]).From(begin)};
    Bytes frame = frames_->Take();
    const Stopwatch stopwatch;
    if (count > 0) {
      const Span<float> piece(sums.flat<float>().data(), static_cast<size_t>(count));
      OP_REQUIRES_OK(ctx, ToTensorFlow(EncodeSum(*compressor, gradient, slots, piece, context,
                                                 &frame, &num_sent)));
    }
    const int64_t nanoseconds = stopwatch.nanoseconds();
    FramePool::Output(frames_, ctx, std::move(frame));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 1, num_sent));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 2, nanoseconds));
  }

 private:
  static constexpr int kFirstSlot = 3;

  // Makes slot i out of the input, or of a copy where someone else holds it.
  static absl::Status ForwardSlot(OpKernelContext* ctx, int i, float** slot) {
    const Tensor& own = ctx->input(i);
    Tensor* after;
    TF_RETURN_IF_ERROR(
        ctx->forward_input_or_allocate_output({i}, kFirstSlot + i, own.shape(), &after));
    if (after->data() != own.data()) std::memcpy(after->data(), own.data(), own.TotalBytes());
    *slot = after->flat<float>().data();
    return absl::OkStatus();
  }

  static absl::Status ForwardOthers(OpKernelContext* ctx, Tensor* sums) {
    constexpr int kOthers = 1;  // After the gradient.
    const Tensor& others = ctx->input(kOthers);
    TF_RETURN_IF_ERROR(
        ctx->forward_input_or_allocate_temp({kOthers}, tensorflow::DT_FLOAT, others.shape(), sums));
    if (sums->data() != others.data()) {
      std::memcpy(sums->data(), others.data(), others.TotalBytes());
    }
    return absl::OkStatus();
  }

  CompressorCache compressors_;
  const std::shared_ptr<FramePool> frames_ = FramePool::Make();
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>EncodePieces").Device(tensorflow::DEVICE_CPU),
                        EncodePiecesKernel);
REGISTER_KERNEL_BUILDER(Name("Tfcompress>EncodeSum").Device(tensorflow::DEVICE_CPU),
                        EncodeSumKernel);

}  // namespace
}  // namespace tfcompress
