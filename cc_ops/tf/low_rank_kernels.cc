#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/linear/low_rank.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// What the kernels share: the matrices, and the sizes of their factors.
class LowRankKernel : public tensorflow::OpKernel {
 public:
  explicit LowRankKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rank", &rank_));
  }

  void Compute(OpKernelContext* ctx) override {
    OpInputList tensors;
    OP_REQUIRES_OK(ctx, ctx->input_list("matrices", &tensors));
    std::vector<MatrixShape> shapes;
    std::vector<const float*> matrices;
    for (const Tensor& tensor : tensors) {
      OP_REQUIRES(ctx, tensor.dims() >= 2,
                  absl::InvalidArgumentError(
                      absl::StrCat("a matrix has at least two dimensions, got the shape ",
                                   tensor.shape().DebugString())));
      const int64_t columns = tensor.dim_size(tensor.dims() - 1);
      shapes.push_back({columns == 0 ? 0 : tensor.NumElements() / columns, columns});
      matrices.push_back(tensor.flat<float>().data());
    }
    const LowRank low_rank(rank_, std::move(shapes));
    const Stopwatch stopwatch;
    PoolExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, Run(ctx, low_rank, matrices, &executor));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, ctx->num_outputs() - 1, stopwatch.nanoseconds()));
  }

 protected:
  // Sets all outputs but the last one, the time.
  virtual absl::Status Run(OpKernelContext* ctx, const LowRank& low_rank,
                           const std::vector<const float*>& matrices, Executor* executor) = 0;

  int rank() const { return rank_; }

 private:
  int rank_ = 0;
};

class LeftKernel : public LowRankKernel {
 public:
  using LowRankKernel::LowRankKernel;

 protected:
  absl::Status Run(OpKernelContext* ctx, const LowRank& low_rank,
                   const std::vector<const float*>& matrices, Executor* executor) override {
    OpInputList factors;
    int64_t seed = 0;
    TF_RETURN_IF_ERROR(ctx->input_list("last_right", &factors));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, "seed", &seed));
    std::vector<const float*> last_right;
    for (int i = 0; i < factors.size(); ++i) {
      const TensorShape& shape = ctx->input(i).shape();  // Of the matrix: these come first.
      const int64_t expected = rank() * shape.dim_size(shape.dims() - 1);
      if (factors[i].NumElements() != expected) {
        return absl::InvalidArgumentError(absl::StrCat(
            "right factor ", i, " has ", factors[i].NumElements(), " floats, expected ", expected));
      }
      last_right.push_back(factors[i].flat<float>().data());
    }
    Tensor* left;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({low_rank.left_size()}), &left));
    return ToTensorFlow(
        low_rank.Left(matrices, last_right, static_cast<uint64_t>(seed), executor, Floats(left)));
  }
};

class RightKernel : public LowRankKernel {
 public:
  using LowRankKernel::LowRankKernel;

 protected:
  absl::Status Run(OpKernelContext* ctx, const LowRank& low_rank,
                   const std::vector<const float*>& matrices, Executor* executor) override {
    const Tensor* summed;
    TF_RETURN_IF_ERROR(ReadVector(ctx, "summed_left", &summed));
    Tensor *left, *right;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, summed->shape(), &left));
    TF_RETURN_IF_ERROR(ctx->allocate_output(1, TensorShape({low_rank.right_size()}), &right));
    std::copy_n(summed->flat<float>().data(), summed->NumElements(), left->flat<float>().data());
    return ToTensorFlow(low_rank.Right(matrices, executor, Floats(left), Floats(right)));
  }
};

class DecodeKernel : public LowRankKernel {
 public:
  explicit DecodeKernel(OpKernelConstruction* ctx) : LowRankKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_residuals", &num_residuals_));
  }

 protected:
  absl::Status Run(OpKernelContext* ctx, const LowRank& low_rank,
                   const std::vector<const float*>& matrices, Executor* executor) override {
    const auto num_matrices = static_cast<int>(matrices.size());
    if (num_residuals_ != 0 && num_residuals_ != num_matrices) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_residuals must be 0 or ", num_matrices, ", got ", num_residuals_));
    }
    const Tensor *left, *right;
    float scale = 0;
    TF_RETURN_IF_ERROR(ReadVector(ctx, "left", &left));
    TF_RETURN_IF_ERROR(ReadVector(ctx, "right", &right));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, "scale", &scale));
    // A residual takes the memory of its matrix, where nothing else reads that.
    std::vector<float*> decoded, residuals;
    for (int i = 0; i < num_matrices; ++i) {
      const TensorShape& shape = ctx->input(i).shape();
      Tensor* output;
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, shape, &output));
      decoded.push_back(output->flat<float>().data());
      if (num_residuals_ == 0) continue;
      TF_RETURN_IF_ERROR(
          ctx->forward_input_or_allocate_output({i}, num_matrices + i, shape, &output));
      residuals.push_back(output->flat<float>().data());
    }
    bool finite = false;
    TF_RETURN_IF_ERROR(ToTensorFlow(low_rank.Decode(matrices, Floats(*left), Floats(*right), scale,
                                                    executor, decoded, residuals, &finite)));
    return OutputScalar(ctx, num_matrices + num_residuals_, finite);
  }

 private:
  int num_residuals_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>LowRankLeft").Device(tensorflow::DEVICE_CPU), LeftKernel);
REGISTER_KERNEL_BUILDER(Name("Tfcompress>LowRankRight").Device(tensorflow::DEVICE_CPU),
                        RightKernel);
REGISTER_KERNEL_BUILDER(Name("Tfcompress>LowRankDecode").Device(tensorflow::DEVICE_CPU),
                        DecodeKernel);

}  // namespace
}  // namespace tfcompress
