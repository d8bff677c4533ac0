#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/dtype_conversion.h"
#include "tf/locked_slots.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

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
    const Tensor* seed;
    OP_REQUIRES_OK(ctx, ctx->input("seed", &seed));
    OP_REQUIRES(ctx, tensorflow::TensorShapeUtils::IsScalar(seed->shape()),
                absl::InvalidArgumentError(absl::StrCat("seed must be a scalar, got shape ",
                                                        seed->shape().DebugString())));
    Bytes frame;
    int64_t nanoseconds = 0;
    OP_REQUIRES_OK(ctx, Encode(ctx, gradient, seed->scalar<int64_t>()(), &frame, &nanoseconds));

    Tensor* output;
    const auto num_bytes = static_cast<int64_t>(frame.size());
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({num_bytes}), &output));
    std::memcpy(output->data(), frame.data(), frame.size());
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &output));
    output->scalar<int64_t>()() = nanoseconds;
  }

 private:
  // Holds the slots' locks no longer than it takes to encode.
  absl::Status Encode(OpKernelContext* ctx, const Tensor& gradient, int64_t seed, Bytes* frame,
                      int64_t* nanoseconds) const {
    LockedSlots slots;
    TF_RETURN_IF_ERROR(slots.Acquire(ctx, gradient.NumElements()));
    PoolExecutor executor(ctx);
    const GradientView view{gradient.data(), ToDType(gradient.dtype()),
                            static_cast<uint64_t>(gradient.NumElements())};
    const CodecContext context{static_cast<uint64_t>(seed), &executor};
    const auto start = std::chrono::steady_clock::now();
    const Status status = EncodeFrame(*compressor_, view, slots.vectors(), context, frame);
    *nanoseconds = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    return ToTensorFlow(status);
  }

  std::shared_ptr<const Compressor> compressor_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Encode").Device(tensorflow::DEVICE_CPU), EncodeKernel);

}  // namespace
}  // namespace tfcompress
