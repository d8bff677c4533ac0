#include <cstdint>
#include <memory>
#include <utility>
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

class LinearEncodeKernel : public tensorflow::OpKernel {
 public:
  explicit LinearEncodeKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    int64_t seed = 0;
    tensorflow::tstring spec;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "seed", &seed));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "spec", &spec));
    std::shared_ptr<const LinearCompressor> compressor;
    OP_REQUIRES_OK(ctx, compressors_.Get(spec, &compressor));
    tensorflow::OpInputList tensors;
    OP_REQUIRES_OK(ctx, ctx->input_list("dense", &tensors));
    const JoinedSpan dense = Join(tensors);

    Tensor* payload;
    const int64_t size = compressor->codec().PayloadSize(dense.size());
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({size}), &payload));
    PoolExecutor executor(ctx);
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(compressor->codec().Encode(
                            dense, {static_cast<uint64_t>(seed), &executor},
                            {payload->flat<float>().data(), static_cast<size_t>(size)})));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 1, stopwatch.nanoseconds()));
  }

 private:
  // The tensors as one vector, where they lie.
  static JoinedSpan Join(const tensorflow::OpInputList& tensors) {
    std::vector<Span<const float>> parts;
    for (const Tensor& tensor : tensors) {
      parts.emplace_back(tensor.flat<float>().data(), static_cast<size_t>(tensor.NumElements()));
    }
    return JoinedSpan(std::move(parts));
  }

  LinearCompressorCache compressors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>LinearEncode").Device(tensorflow::DEVICE_CPU),
                        LinearEncodeKernel);

}  // namespace
}  // namespace tfcompress
