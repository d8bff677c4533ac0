// Both decodings of the sharded exchange: what others sent of the own pieces, and all sums.
#include <cstring>
#include <vector>

#include "core/pieces.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/decode_sum_io.h"
#include "tf/kept_outputs.h"
#include "tf/pool_executor.h"
#include "tf/shard_io.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

class SumPiecesKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OwnSums sums;
    OP_REQUIRES_OK(ctx, ReadOwnSums(ctx, &kept_, &sums));
    std::vector<DecodeStats> stats(sums.targets.size());
    PoolExecutor executor(ctx);
    const Status status = sums.is_alone()
                              ? OkStatus()
                              : DecodeSum(sums.packets, sums.positions, 1.0f, sums.targets,
                                          &executor, Span<DecodeStats>(stats));
    Bytes error;
    const bool is_broken = status.code() == StatusCode::kDataLoss;
    if (is_broken) AppendError(status, &error);
    if (is_broken || sums.is_alone()) {
      for (const SumTarget& target : sums.targets)
        std::memset(target.data, 0, target.n * sizeof(float));
    } else {
      OP_REQUIRES_OK(ctx, ToTensorFlow(status));
    }
    OP_REQUIRES_OK(ctx, OutputOwnStats(ctx, sums, stats, error));
  }

 private:
  KeptOutputs kept_;
};

class DecodePiecesKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    CutSums sums;
    OP_REQUIRES_OK(ctx, ReadCutSums(ctx, &kept_, &sums));
    std::vector<DecodeStats> stats(sums.tensors.size());
    PoolExecutor executor(ctx);
    OP_REQUIRES_OK(ctx, ToTensorFlow(DecodePieces(sums.packets, sums.scale, sums.tensors, &executor,
                                                  Span<DecodeStats>(stats))));
    OP_REQUIRES_OK(ctx, OutputStats(ctx, stats));
  }

 private:
  KeptOutputs kept_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>SumPieces").Device(tensorflow::DEVICE_CPU),
                        SumPiecesKernel);
REGISTER_KERNEL_BUILDER(Name("Tfcompress>DecodePieces").Device(tensorflow::DEVICE_CPU),
                        DecodePiecesKernel);

}  // namespace
}  // namespace tfcompress
