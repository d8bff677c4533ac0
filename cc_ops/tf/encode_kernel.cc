#include <memory>

#include "core/pipeline.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/slot_vectors.h"
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
    constexpr int kNewSlots = 2;
    OP_REQUIRES_OK(ctx, AllocateSlots(ctx, compressor->memory(), compressor->spec(), gradient,
                                      kNewSlots, &slots));

    PoolExecutor executor(ctx);
    const GradientView view{gradient.data(), ToDType(gradient.dtype()),
                            static_cast<uint64_t>(gradient.NumElements())};
    const CodecContext context{static_cast<uint64_t>(seed), &executor};
    Bytes frame;
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx,
                   ToTensorFlow(EncodeFrame(*compressor, view, slots.slots(), context, &frame)));
    OP_REQUIRES_OK(ctx, OutputFrame(ctx, frame, stopwatch.nanoseconds()));
  }

 private:
  CompressorCache compressors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Encode").Device(tensorflow::DEVICE_CPU), EncodeKernel);

}  // namespace
}  // namespace tfcompress
