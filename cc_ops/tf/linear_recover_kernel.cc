#include <cstdint>
#include <vector>

#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernel_io.h"
#include "tf/linear_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

class LinearRecoverKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    LinearRecoverInputs inputs;
    OP_REQUIRES_OK(ctx, ReadLinearRecoverInputs(ctx, &compressors_, &inputs));
    PoolExecutor executor(ctx);
    std::vector<uint32_t> indices;
    std::vector<float> values;
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(inputs.compressor->codec().Recover(
                            inputs.summed, inputs.n, {inputs.seed, &executor}, &indices, &values)));
    OP_REQUIRES_OK(ctx, OutputVector<int64_t>(ctx, 0, indices));
    OP_REQUIRES_OK(ctx, OutputVector<float>(ctx, 1, values));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 2, stopwatch.nanoseconds()));
  }

 private:
  LinearCompressorCache compressors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>LinearRecover").Device(tensorflow::DEVICE_CPU),
                        LinearRecoverKernel);

}  // namespace
}  // namespace tfcompress
