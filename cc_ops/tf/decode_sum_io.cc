#include "tf/decode_sum_io.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"

namespace tfcompress {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

absl::Status SumAttributes::Read(OpKernelConstruction* ctx) {
  int num_tensors;
  std::vector<tensorflow::DataType> dtypes;
  TF_RETURN_IF_ERROR(ctx->GetAttr("N", &num_tensors));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dtypes", &dtypes));
  if (static_cast<int>(dtypes.size()) != num_tensors) {
    return absl::InvalidArgumentError(absl::StrCat("expected one dtype for each shape, got ",
                                                   dtypes.size(), " dtypes for ", num_tensors,
                                                   " shapes"));
  }
  TF_RETURN_IF_ERROR(ctx->GetAttr("positions", &positions));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_frames", &num_frames));
  if (positions.empty()) {
    positions.resize(num_tensors);
    std::iota(positions.begin(), positions.end(), 0);
  }
  if (num_frames == 0) num_frames = num_tensors;
  return absl::OkStatus();
}

absl::Status ReadSumInputs(OpKernelContext* ctx, const SumAttributes& attributes,
                           SumInputs* inputs) {
  const Tensor* packets;
  int32_t num_ranks = 0;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "packets", &packets));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "num_ranks", &num_ranks));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "scale", &inputs->scale));
  inputs->packets = {ToBytes(*packets), num_ranks, attributes.num_frames};
  return absl::OkStatus();
}

absl::Status AllocateSums(OpKernelContext* ctx, KeptOutputs* kept,
                          std::vector<SumTarget>* targets) {
  tensorflow::OpInputList shapes;
  TF_RETURN_IF_ERROR(ctx->input_list("shapes", &shapes));
  for (int i = 0; i < shapes.size(); ++i) {
    TensorShape shape;
    TF_RETURN_IF_ERROR(tensorflow::tensor::MakeShape(shapes[i], &shape));
    Tensor* sum;
    TF_RETURN_IF_ERROR(kept == nullptr ? ctx->allocate_output(i, shape, &sum)
                                       : kept->Allocate(ctx, i, shape, &sum));
    targets->push_back(
        {sum->data(), ToDType(sum->dtype()), static_cast<uint64_t>(sum->NumElements())});
  }
  return absl::OkStatus();
}

absl::Status OutputStats(OpKernelContext* ctx, const std::vector<DecodeStats>& stats) {
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

}  // namespace tfcompress
