#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/codec.h"
#include "core/sparsify/select_largest.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class SelectLargestKernel : public tensorflow::OpKernel {
 public:
  explicit SelectLargestKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor* values;
    int64_t count = 0;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "values", &values));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "count", &count));
    const int64_t size = values->NumElements();
    OP_REQUIRES(ctx, size <= static_cast<int64_t>(kMaxElements),
                absl::InvalidArgumentError(absl::StrCat(
                    "values has ", size, " elements, above the limit of ", kMaxElements)));
    OP_REQUIRES(
        ctx, count >= 0 && count <= size,
        absl::InvalidArgumentError(absl::StrCat("count must be in [0, ", size, "], got ", count)));
    PoolExecutor executor(ctx);
    std::vector<uint32_t> positions;
    SelectLargest({values->flat<float>().data(), static_cast<size_t>(size)},
                  static_cast<size_t>(count), &executor, &positions);
    OP_REQUIRES_OK(ctx, OutputVector<int64_t>(ctx, 0, positions));
  }
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>SelectLargest").Device(tensorflow::DEVICE_CPU),
                        SelectLargestKernel);

}  // namespace
}  // namespace tfcompress
