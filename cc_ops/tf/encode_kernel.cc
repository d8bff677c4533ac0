#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"
#include "tf/locked_slots.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class EncodeKernel : public tensorflow::OpKernel {
 public:
  explicit EncodeKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string spec;
    int num_slots;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("spec", &spec));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_slots", &num_slots));
    auto compressor = Compressor::FromSpec(spec);
    OP_REQUIRES_OK(ctx, ToTensorFlow(compressor.status()));
    compressor_ = std::move(compressor.value());
    const int needed = compressor_->memory().num_slots();
    OP_REQUIRES(ctx, num_slots == needed,
                absl::InvalidArgumentError(absl::StrCat("the memory of '", spec, "' needs ", needed,
                                                        " slots, got ", num_slots)));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& gradient = ctx->input(0);
    int64_t seed = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "seed", &seed));
    Bytes frame;
    int64_t nanoseconds = 0;
    OP_REQUIRES_OK(ctx, Encode(ctx, gradient, seed, &frame, &nanoseconds));
    OP_REQUIRES_OK(ctx, OutputFrame(ctx, frame, nanoseconds));
  }

 private:
  // Holds the slots' locks no longer than it takes to encode.
  absl::Status Encode(OpKernelContext* ctx, const Tensor& gradient, int64_t seed, Bytes* frame,
                      int64_t* nanoseconds) const {
    LockedSlots slots;
    TF_RETURN_IF_ERROR(slots.Acquire(ctx, "slots", "the gradient", gradient.NumElements()));
    PoolExecutor executor(ctx);
    const GradientView view{gradient.data(), ToDType(gradient.dtype()),
                            static_cast<uint64_t>(gradient.NumElements())};
    const CodecContext context{static_cast<uint64_t>(seed), &executor};
    const Stopwatch stopwatch;
    const Status status = EncodeFrame(*compressor_, view, slots.vectors(), context, frame);
    *nanoseconds = stopwatch.nanoseconds();
    return ToTensorFlow(status);
  }

  std::shared_ptr<const Compressor> compressor_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Encode").Device(tensorflow::DEVICE_CPU), EncodeKernel);

}  // namespace
}  // namespace tfcompress
