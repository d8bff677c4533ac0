#include <vector>

#include "core/dtype.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compensate_io.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

class CompensateKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    CompensateInputs inputs;
    OP_REQUIRES_OK(
        ctx, ReadCompensateInputs(ctx, &memories_, GradientBuffer::kBecomesFirstSlot, &inputs));
    const GradientView& gradient = inputs.gradient;
    PoolExecutor executor(ctx);
    std::vector<float> widened;
    const Span<const float> given =
        ViewAsFloat(gradient.data, gradient.dtype, gradient.n, &executor, &widened);
    bool finite = true;
    inputs.memory.memory->Compensate(given, inputs.slots.slots(), {0, &executor}, &finite);
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, inputs.finite_output(), finite));
  }

 private:
  MemoryCache memories_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Compensate").Device(tensorflow::DEVICE_CPU),
                        CompensateKernel);

}  // namespace
}  // namespace tfcompress
