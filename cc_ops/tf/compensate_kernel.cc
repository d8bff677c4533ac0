#include <memory>
#include <vector>

#include "core/dtype.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/slot_vectors.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class CompensateKernel : public tensorflow::OpKernel {
 public:
  explicit CompensateKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& gradient = ctx->input(0);
    tensorflow::tstring spec;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "spec", &spec));
    std::shared_ptr<const LinearCompressor> compressor;
    OP_REQUIRES_OK(ctx, compressors_.Get(spec, &compressor));
    const Memory& memory = compressor->memory();
    SlotVectors slots;
    OP_REQUIRES_OK(ctx, AllocateSlots(ctx, memory, compressor->spec(), gradient, 0, &slots));

    PoolExecutor executor(ctx);
    std::vector<float> widened;
    const Span<const float> given =
        ViewAsFloat(gradient.data(), ToDType(gradient.dtype()),
                    static_cast<uint64_t>(gradient.NumElements()), &executor, &widened);
    bool finite = true;
    memory.Compensate(given, slots.slots(), {0, &executor}, &finite);
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, memory.num_slots(), finite));
  }

 private:
  LinearCompressorCache compressors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Compensate").Device(tensorflow::DEVICE_CPU),
                        CompensateKernel);

}  // namespace
}  // namespace tfcompress
