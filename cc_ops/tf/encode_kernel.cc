#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class EncodeKernel : public tensorflow::OpKernel {
 public:
  explicit EncodeKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& gradient = ctx->input(0);
    int64_t seed = 0;
    tensorflow::tstring spec;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "seed", &seed));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "spec", &spec));
    std::shared_ptr<const Compressor> compressor;
    OP_REQUIRES_OK(ctx, compressors_.Get(spec, &compressor));
    SlotVectors slots;
    OP_REQUIRES_OK(ctx, AllocateSlots(ctx, *compressor, gradient, &slots));

    PoolExecutor executor(ctx);
    const GradientView view{gradient.data(), ToDType(gradient.dtype()),
                            static_cast<uint64_t>(gradient.NumElements())};
    const CodecContext context{static_cast<uint64_t>(seed), &executor};
    Bytes frame;
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(EncodeFrame(*compressor, view, {slots.before, slots.after},
                                                 context, &frame)));
    OP_REQUIRES_OK(ctx, OutputFrame(ctx, frame, stopwatch.nanoseconds()));
  }

 private:
  struct SlotVectors {
    std::vector<const float*> before;
    std::vector<float*> after;
  };

  // The slots' vectors: inputs, and outputs of their own, for the step may be dropped.
  static absl::Status AllocateSlots(OpKernelContext* ctx, const Compressor& compressor,
                                    const Tensor& gradient, SlotVectors* vectors) {
    constexpr int kFirstOutput = 2;
    tensorflow::OpInputList slots;
    TF_RETURN_IF_ERROR(ctx->input_list("slots", &slots));
    const int needed = compressor.memory().num_slots();
    if (slots.size() != needed) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the memory of '", compressor.spec(), "' needs ", needed, " slots, got ", slots.size()));
    }
    for (int i = 0; i < slots.size(); ++i) {
      if (slots[i].NumElements() != gradient.NumElements()) {
        return absl::InvalidArgumentError(absl::StrCat("slot ", i, " has ", slots[i].NumElements(),
                                                       " elements, the gradient has ",
                                                       gradient.NumElements()));
      }
      Tensor* after;
      TF_RETURN_IF_ERROR(ctx->allocate_output(kFirstOutput + i, slots[i].shape(), &after));
      vectors->before.push_back(slots[i].flat<float>().data());
      vectors->after.push_back(after->flat<float>().data());
    }
    return absl::OkStatus();
  }

  CompressorCache compressors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Encode").Device(tensorflow::DEVICE_CPU), EncodeKernel);

}  // namespace
}  // namespace tfcompress
