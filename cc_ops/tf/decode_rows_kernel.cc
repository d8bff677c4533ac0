#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/rows.h"
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

class DecodeRowsKernel : public tensorflow::OpKernel {
 public:
  explicit DecodeRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_frames", &num_frames_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("position", &position_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tells_errors", &tells_errors_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor* packets;
    int32_t num_ranks = 0;
    float scale = 0;
    int64_t num_rows = 0;
    const Tensor* row_shape_tensor;
    TensorShape row_shape;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "packets", &packets));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "num_ranks", &num_ranks));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "scale", &scale));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "num_rows", &num_rows));
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "row_shape", &row_shape_tensor));
    OP_REQUIRES_OK(ctx, tensorflow::tensor::MakeShape(*row_shape_tensor, &row_shape));
    OP_REQUIRES(
        ctx, num_rows >= 0,
        absl::InvalidArgumentError(absl::StrCat("num_rows must not be negative, got ", num_rows)));

    PoolExecutor executor(ctx);
    const PacketsView view = {ToBytes(*packets), num_ranks, num_frames_};
    const Table table = {static_cast<uint64_t>(num_rows),
                         static_cast<uint64_t>(row_shape.num_elements()), ToDType(dtype_)};
    SparseRows sum;
    DecodeStats stats;
    const Status status = DecodeRowsSum(view, position_, table, scale, &executor, &sum, &stats);
    Bytes error;
    if (tells_errors_ && status.code() == StatusCode::kDataLoss) {
      AppendError(status, &error);
      sum = {};
    } else {
      OP_REQUIRES_OK(ctx, ToTensorFlow(status));
    }
    OP_REQUIRES_OK(ctx, OutputRows(ctx, sum, row_shape, &executor));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 2, stats.num_bytes));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 3, stats.nanoseconds));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 4, stats.finite));
    OP_REQUIRES_OK(ctx, OutputVector<uint8_t>(ctx, 5, error));
  }

 private:
  absl::Status OutputRows(OpKernelContext* ctx, const SparseRows& sum, const TensorShape& row_shape,
                          Executor* executor) const {
    const auto num_rows = static_cast<int64_t>(sum.ids.size());
    TensorShape shape({num_rows});
    shape.AppendShape(row_shape);
    Tensor* values;
    TF_RETURN_IF_ERROR(OutputVector<int64_t>(ctx, 0, sum.ids));
    TF_RETURN_IF_ERROR(ctx->allocate_output(1, shape, &values));
    NarrowFromFloat(sum.values, ToDType(dtype_), executor, values->data());
    return absl::OkStatus();
  }

  int64_t num_frames_;
  int64_t position_;
  tensorflow::DataType dtype_;
  bool tells_errors_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>DecodeRows").Device(tensorflow::DEVICE_CPU),
                        DecodeRowsKernel);

}  // namespace
}  // namespace tfcompress
