#include <vector>

#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/decode_sum_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

class DecodeSumKernel : public tensorflow::OpKernel {
 public:
  explicit DecodeSumKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    SumInputs inputs;
    OP_REQUIRES_OK(ctx, ReadSumInputs(ctx, attributes_, &inputs));
    std::vector<SumTarget> targets;
    OP_REQUIRES_OK(ctx, AllocateSums(ctx, &kept_, &targets));

    std::vector<DecodeStats> stats(targets.size());
    PoolExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTensorFlow(DecodeSum(inputs.packets, attributes_.positions, inputs.scale,
                                               targets, &executor, Span<DecodeStats>(stats))));
    OP_REQUIRES_OK(ctx, OutputStats(ctx, stats));
  }

 private:
  SumAttributes attributes_;
  KeptOutputs kept_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>DecodeSum").Device(tensorflow::DEVICE_CPU),
                        DecodeSumKernel);

}  // namespace
}  // namespace tfcompress
