#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "core/pieces.h"
#include "cuda/cuda_status.h"
#include "cuda/piece_decoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_or_host.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/cuda/sum_packets.h"
#include "tf/decode_sum_io.h"
#include "tf/pool_executor.h"
#include "tf/shard_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

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
    const SumTask task = {sums.packets, sums.positions, 1.0f, sums.targets};
    const absl::Status status = sums.is_alone()
                                    ? absl::OkStatus()
                                    : SumPackets(ctx, "decoding in '" + name() + "'", task, &stats);
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

absl::Status DecodePiecesOnHost(OpKernelContext* ctx, const CutSums& sums,
                                std::vector<DecodeStats>* stats) {
  std::vector<Tensor> owners;
  std::vector<SumTarget> on_host;
  TF_RETURN_IF_ERROR(AllocateOnHost(ctx, sums.targets, &owners, &on_host));
  std::vector<CutTensor> tensors = sums.tensors;
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].sums = static_cast<float*>(on_host[i].data);
  PoolExecutor executor(ctx);
  TF_RETURN_IF_ERROR(ToTensorFlow(
      DecodePieces(sums.packets, sums.scale, tensors, &executor, Span<DecodeStats>(*stats))));
  return CopySums(ctx, on_host, sums.targets);
}

class DeviceDecodePiecesKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    CutSums sums;
    TF_RETURN_IF_ERROR(ReadCutSums(ctx, nullptr, &sums));
    std::vector<DecodeStats> stats(sums.tensors.size());
    TF_RETURN_IF_ERROR(DecodeEither(ctx, sums, &stats));
    return OutputStats(ctx, stats);
  }

  // On the device, or on the host as SumPackets.
  absl::Status DecodeEither(OpKernelContext* ctx, const CutSums& sums,
                            std::vector<DecodeStats>* stats) {
    int64_t nanoseconds = 0;
    const auto on_device = [&](const device::PieceDecoder& decoder) {
      return DecodeOnDevice(ctx, decoder, sums.packets, sums.scale, stats, &nanoseconds);
    };
    TF_RETURN_IF_ERROR(OnDeviceOrHost(
        ctx, "decoding in '" + name() + "'", device::PieceDecoder::Make(sums.packets, sums.tensors),
        on_device, [&] { return DecodePiecesOnHost(ctx, sums, stats); }, &nanoseconds));
    ShareTime(nanoseconds, sums.targets, stats);
    return absl::OkStatus();
  }
};

[[maybe_unused]] const bool registered =
    RegisterDeviceKernel<DeviceSumPiecesKernel>(
        "Tfcompress>SumPieces",
        {"packets", "num_ranks", "own", "sizes", "num_bytes", "nanoseconds", "finite", "error"}) &&
    RegisterDeviceKernel<DeviceDecodePiecesKernel>(
        "Tfcompress>DecodePieces",
        {"packets", "scale", "cuts", "shapes", "num_bytes", "nanoseconds", "finite"});

}  // namespace
}  // namespace tfcompress
