#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "core/pieces.h"
#include "cuda/cuda_status.h"
#include "cuda/piece_decoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/cuda/sum_packets.h"
#include "tf/decode_sum_io.h"
#include "tf/shard_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

absl::Status Clear(OpKernelContext* ctx, const std::vector<SumTarget>& targets) {
  for (const SumTarget& target : targets) {
    TF_RETURN_IF_ERROR(ToTensorFlow(
        device::FromCuda(cudaMemsetAsync(target.data, 0, target.n * sizeof(float), StreamOf(ctx)),
                         "clearing a sum")));
  }
  return absl::OkStatus();
}

class DeviceSumPiecesKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    OwnSums sums;
    TF_RETURN_IF_ERROR(ReadOwnSums(ctx, nullptr, &sums));
    std::vector<DecodeStats> stats(sums.targets.size());
    absl::Status status;
    if (!sums.is_alone()) {
      status = SumPackets(ctx, "decoding in '" + name() + "'", sums.packets, sums.positions, 1.0f,
                          sums.targets, &stats);
    }
    Bytes error;
    if (absl::IsDataLoss(status)) AppendError(DataLoss(std::string(status.message())), &error);
    if (absl::IsDataLoss(status) || sums.is_alone()) {
      TF_RETURN_IF_ERROR(Clear(ctx, sums.targets));
    } else {
      TF_RETURN_IF_ERROR(status);
    }
    return OutputOwnStats(ctx, sums, stats, error);
  }
};

class DeviceDecodePiecesKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    CutSums sums;
    TF_RETURN_IF_ERROR(ReadCutSums(ctx, nullptr, &sums));
    std::vector<DecodeStats> stats(sums.tensors.size());
    GivenPackets packets(ctx, sums.packets);
    TF_RETURN_IF_ERROR(packets.ReadHeaders(sums.num_pieces()));
    const auto make = [&] { return device::PieceDecoder::Make(packets.on_host(), sums.tensors); };
    const auto on_host = [&](const std::vector<SumTarget>& targets, Executor* executor) {
      std::vector<CutTensor> tensors = sums.tensors;
      for (size_t i = 0; i < tensors.size(); ++i)
        tensors[i].sums = static_cast<float*>(targets[i].data);
      return DecodePieces(packets.on_host(), sums.scale, tensors, executor,
                          Span<DecodeStats>(stats));
    };
    TF_RETURN_IF_ERROR(RunTask(ctx, "decoding in '" + name() + "'", make,
                               {&packets, sums.scale, sums.targets, &stats, on_host}));
    return OutputStats(ctx, stats);
  }
};

[[maybe_unused]] const bool registered =
    RegisterDeviceKernel<DeviceSumPiecesKernel>(
        "Tfcompress>SumPieces",
        {"num_ranks", "own", "sizes", "num_bytes", "nanoseconds", "finite", "error"}, "packets") &&
    RegisterDeviceKernel<DeviceDecodePiecesKernel>(
        "Tfcompress>DecodePieces",
        {"scale", "cuts", "shapes", "num_bytes", "nanoseconds", "finite"}, "packets");

}  // namespace
}  // namespace tfcompress
