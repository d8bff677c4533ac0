#include <utility>

#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernel_io.h"
#include "tf/linear_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

class LinearEncodeKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    LinearEncodeInputs inputs;
    OP_REQUIRES_OK(ctx, ReadLinearEncodeInputs(ctx, &compressors_, &inputs));
    const JoinedSpan dense(std::move(inputs.parts));
    PoolExecutor executor(ctx);
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(inputs.compressor->codec().Encode(
                            dense, {inputs.seed, &executor}, inputs.payload)));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 1, stopwatch.nanoseconds()));
  }

 private:
  LinearCompressorCache compressors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>LinearEncode").Device(tensorflow::DEVICE_CPU),
                        LinearEncodeKernel);

}  // namespace
}  // namespace tfcompress
