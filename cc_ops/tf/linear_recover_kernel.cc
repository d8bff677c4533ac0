#include <cstdint>
#include <memory>
#include <vector>

#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class LinearRecoverKernel : public tensorflow::OpKernel {
 public:
  explicit LinearRecoverKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor* summed;
    int64_t n = 0;
    int64_t seed = 0;
    tensorflow::tstring spec;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "summed", &summed));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "n", &n));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "seed", &seed));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "spec", &spec));
    std::shared_ptr<const LinearCompressor> compressor;
    OP_REQUIRES_OK(ctx, compressors_.Get(spec, &compressor));

    PoolExecutor executor(ctx);
    const Span<const float> payload(summed->flat<float>().data(),
                                    static_cast<size_t>(summed->NumElements()));
    std::vector<uint32_t> indices;
    std::vector<float> values;
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx,
                   ToTensorFlow(compressor->codec().Recover(
                       payload, n, {static_cast<uint64_t>(seed), &executor}, &indices, &values)));
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
