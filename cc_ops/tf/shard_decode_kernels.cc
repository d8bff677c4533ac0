// Both decodings of the sharded exchange: what others sent of the own pieces, and all sums.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/pieces.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/decode_sum_io.h"
#include "tf/kept_outputs.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class SumPiecesKernel : public tensorflow::OpKernel {
 public:
  explicit SumPiecesKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor *packets, *sizes;
    int32_t num_ranks = 0, own = 0;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "packets", &packets));
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "sizes", &sizes));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "num_ranks", &num_ranks));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "own", &own));
    std::vector<SumTarget> targets;
    std::vector<int64_t> tensors, positions;
    for (int i = 0; i < sizes->NumElements(); ++i) {
      const int64_t size = sizes->vec<int64_t>()(i);
      OP_REQUIRES(ctx, size >= 0,
                  absl::InvalidArgumentError(absl::StrCat("a piece of ", size, " elements")));
      Tensor* sum;
      OP_REQUIRES_OK(ctx, kept_.Allocate(ctx, i, TensorShape({size}), &sum));
      if (size == 0) continue;
      positions.push_back(static_cast<int64_t>(targets.size()));
      tensors.push_back(i);
      targets.push_back({sum->data(), DType::kFloat32, static_cast<uint64_t>(size)});
    }

    std::vector<DecodeStats> of_targets(targets.size());
    const auto num_frames = static_cast<int64_t>(targets.size());
    PoolExecutor executor(ctx);
    const Status status = DecodeSum({ToBytes(*packets), num_ranks, num_frames, own}, positions,
                                    1.0f, targets, &executor, Span<DecodeStats>(of_targets));
    Bytes error;
    if (status.code() == StatusCode::kDataLoss) {
      AppendError(status, &error);
      for (const SumTarget& target : targets) std::memset(target.data, 0, 4 * target.n);
    } else {
      OP_REQUIRES_OK(ctx, ToTensorFlow(status));
    }
    std::vector<DecodeStats> stats(static_cast<size_t>(sizes->NumElements()));
    for (size_t i = 0; i < tensors.size(); ++i) stats[tensors[i]] = of_targets[i];
    OP_REQUIRES_OK(ctx, OutputStats(ctx, stats));
    OP_REQUIRES_OK(ctx, OutputBytes(ctx, static_cast<int>(stats.size()) + 3, error));
  }

 private:
  KeptOutputs kept_;
};

class DecodePiecesKernel : public tensorflow::OpKernel {
 public:
  explicit DecodePiecesKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor *packets, *cuts;
    float scale = 0;
    OP_REQUIRES_OK(ctx, ReadVector(ctx, "packets", &packets));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "scale", &scale));
    OP_REQUIRES_OK(ctx, ctx->input("cuts", &cuts));
    std::vector<SumTarget> targets;
    OP_REQUIRES_OK(ctx, AllocateSums(ctx, &kept_, &targets));
    std::vector<CutTensor> tensors;
    OP_REQUIRES_OK(ctx, Cut(*cuts, targets, &tensors));

    std::vector<DecodeStats> stats(targets.size());
    PoolExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTensorFlow(DecodePieces(ToBytes(*packets), scale, tensors, &executor,
                                                  Span<DecodeStats>(stats))));
    OP_REQUIRES_OK(ctx, OutputStats(ctx, stats));
  }

 private:
  static absl::Status Cut(const Tensor& cuts, const std::vector<SumTarget>& targets,
                          std::vector<CutTensor>* tensors) {
    const auto num_tensors = static_cast<int64_t>(targets.size());
    if (cuts.dims() != 2 || cuts.dim_size(0) != num_tensors) {
      return absl::InvalidArgumentError(absl::StrCat("cuts must have one row for each of ",
                                                     num_tensors, " tensors, got shape ",
                                                     cuts.shape().DebugString()));
    }
    const auto width = static_cast<size_t>(cuts.dim_size(1));
    for (size_t i = 0; i < targets.size(); ++i) {
      const Span<const int64_t> row(cuts.flat<int64_t>().data() + i * width, width);
      TF_RETURN_IF_ERROR(ToTensorFlow(CheckCuts(row, targets[i].n)));
      tensors->push_back({static_cast<float*>(targets[i].data), row});
    }
    return absl::OkStatus();
  }

  KeptOutputs kept_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>SumPieces").Device(tensorflow::DEVICE_CPU),
                        SumPiecesKernel);
REGISTER_KERNEL_BUILDER(Name("Tfcompress>DecodePieces").Device(tensorflow::DEVICE_CPU),
                        DecodePiecesKernel);

}  // namespace
}  // namespace tfcompress
