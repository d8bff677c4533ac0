#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

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
    OP_REQUIRES_OK(ctx, ctx->GetAttr("positions", &positions_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_frames", &num_frames_));
    if (positions_.empty()) {
      positions_.resize(num_tensors);
      std::iota(positions_.begin(), positions_.end(), 0);
    }
    if (num_frames_ == 0) num_frames_ = num_tensors;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor* packets;
    int32_t num_ranks = 0;
    float scale = 0;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "packets", &packets));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "num_ranks", &num_ranks));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "scale", &scale));
    std::vector<SumTarget> targets;
    OP_REQUIRES_OK(ctx, AllocateSums(ctx, &targets));

    std::vector<DecodeStats> stats(targets.size());
    PoolExecutor executor(ctx);
    const PacketsView view = {ToBytes(*packets), num_ranks, num_frames_};
    OP_REQUIRES_OK(ctx, ToTensorFlow(DecodeSum(view, positions_, scale, targets, &executor,
                                               Span<DecodeStats>(stats))));
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

  // Fills the outputs after the sums.
  static absl::Status OutputStats(OpKernelContext* ctx, const std::vector<DecodeStats>& stats) {
    const auto num_tensors = static_cast<int64_t>(stats.size());
    Tensor* num_bytes;
    Tensor* nanoseconds;
    Tensor* finite;
    const int first = static_cast<int>(num_tensors);
    TF_RETURN_IF_ERROR(ctx->allocate_output(first, TensorShape({num_tensors}), &num_bytes));
    TF_RETURN_IF_ERROR(ctx->allocate_output(first + 1, TensorShape({num_tensors}), &nanoseconds));
    TF_RETURN_IF_ERROR(ctx->allocate_output(first + 2, TensorShape({num_tensors}), &finite));
    for (int64_t i = 0; i < num_tensors; ++i) {
      num_bytes->vec<int64_t>()(i) = stats[i].num_bytes;
      nanoseconds->vec<int64_t>()(i) = stats[i].nanoseconds;
      finite->vec<bool>()(i) = stats[i].finite;
    }
    return absl::OkStatus();
  }

  std::vector<int64_t> positions_;
  int64_t num_frames_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>DecodeSum").Device(tensorflow::DEVICE_CPU),
                        DecodeSumKernel);

}  // namespace
}  // namespace tfcompress
