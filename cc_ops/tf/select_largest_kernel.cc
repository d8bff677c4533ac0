#include <cstdint>
#include <vector>

#include "core/sparsify/select_largest.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/select_largest_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

class SelectLargestKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    SelectInputs inputs;
    OP_REQUIRES_OK(ctx, ReadSelectInputs(ctx, &inputs));
    PoolExecutor executor(ctx);
    std::vector<uint32_t> positions;
    SelectLargest(inputs.values, inputs.count, &executor, &positions);
    OP_REQUIRES_OK(ctx, OutputVector<int64_t>(ctx, 0, positions));
  }
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>SelectLargest").Device(tensorflow::DEVICE_CPU),
                        SelectLargestKernel);

}  // namespace
}  // namespace tfcompress
