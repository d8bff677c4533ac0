#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tf/dtype_conversion.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::TensorShapeUtils;

class DecodeSumKernel : public tensorflow::OpKernel {
 public:
  explicit DecodeSumKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_tensors;
    std::vector<tensorflow::DataType> dtypes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_tensors));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes));
    OP_REQUIRES(ctx, static_cast<int>(dtypes.size()) == num_tensors,
                absl::InvalidArgumentError(
                    absl::StrCat(dtypes.size(), " dtypes for ", num_tensors, " shapes")));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& packets = ctx->input(0);
    const Tensor& num_ranks = ctx->input(1);
    const Tensor& scale = ctx->input(2);
    OP_REQUIRES(ctx, TensorShapeUtils::IsVector(packets.shape()),
                absl::InvalidArgumentError(absl::StrCat("packets must be 1-D, got shape ",
                                                        packets.shape().DebugString())));
    OP_REQUIRES(
        ctx,
        TensorShapeUtils::IsScalar(num_ranks.shape()) && TensorShapeUtils::IsScalar(scale.shape()),
        absl::InvalidArgumentError("num_ranks and scale must be scalars"));
    std::vector<SumTarget> targets;
    OP_REQUIRES_OK(ctx, AllocateSums(ctx, &targets));

    std::vector<DecodeStats> stats(targets.size());
    PoolExecutor executor(ctx);
    const ByteSpan bytes(packets.flat<uint8_t>().data(), packets.NumElements());
    OP_REQUIRES_OK(
        ctx, ToTensorFlow(DecodeSum(bytes, num_ranks.scalar<int32_t>()(), scale.scalar<float>()(),
                                    targets, &executor, Span<DecodeStats>(stats))));
    OP_REQUIRES_OK(ctx, OutputStats(ctx, stats));
  }

 private:
  static absl::Status AllocateSums(OpKernelContext* ctx, std::vector<SumTarget>* targets) {
    tensorflow::OpInputList shapes;
    TF_RETURN_IF_ERROR(ctx->input_list("shapes", &shapes));
    for (int i = 0; i < shapes.size(); ++i) {
      TensorShape shape;
      TF_RETURN_IF_ERROR(tensorflow::tensor::MakeShape(shapes[i], &shape));
      Tensor* sum;
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, shape, &sum));
      targets->push_back(
          {sum->data(), ToDType(sum->dtype()), static_cast<uint64_t>(sum->NumElements())});
    }
    return absl::OkStatus();
  }

  // Fills the two outputs after the sums.
  static absl::Status OutputStats(OpKernelContext* ctx, const std::vector<DecodeStats>& stats) {
    const auto num_tensors = static_cast<int64_t>(stats.size());
    Tensor* num_bytes;
    Tensor* nanoseconds;
    const int first = static_cast<int>(num_tensors);
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, TensorShape({num_tensors}), &num_bytes));
    TF_RETURN_IF_ERROR(ctx->allocate_output(first + 1, TensorShape({num_tensors}), &nanoseconds));
    for (int64_t i = 0; i < num_tensors; ++i) {
      num_bytes->vec<int64_t>()(i) = stats[i].num_bytes;
      nanoseconds->vec<int64_t>()(i) = stats[i].nanoseconds;
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>DecodeSum").Device(tensorflow::DEVICE_CPU),
                        DecodeSumKernel);

}  // namespace
}  // namespace tfcompress
