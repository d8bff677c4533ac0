#include <cuda_runtime.h>

#include <vector>

#include "core/pieces.h"
#include "cuda/device_variants.h"
#include "cuda/pieces.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/joint_encode_kernel.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/encode_io.h"
#include "tf/pool_executor.h"
#include "tf/shard_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status EncodePiecesOnHost(OpKernelContext* ctx, const PieceInputs& in, PieceCounts* counts) {
  const uint64_t n = in.gradient.size();
  HostCopies copies(ctx);
  std::vector<float*> gradient, slots;
  const float* const gradient_dev = in.gradient.data();
  TF_RETURN_IF_ERROR(copies.Take({&gradient_dev, 1}, n, &gradient));
  TF_RETURN_IF_ERROR(copies.Take(in.slots.before, n, &slots));
  TF_RETURN_IF_ERROR(copies.Wait());
  const std::vector<const float*> before(slots.begin(), slots.end());
  PoolExecutor executor(ctx);
  Bytes frames;
  TF_RETURN_IF_ERROR(ToTensorFlow(EncodePieces(*in.compressor, {gradient[0], n}, in.cuts, in.own,
                                               {before, Span<float* const>(slots)},
                                               {in.seed, &executor, in.grid}, &frames, counts)));
  TF_RETURN_IF_ERROR(copies.PutBack(slots, n, in.slots.after));
  return OutputFrames(ctx, frames);
}

std::vector<FrameJob> FramesOf(const PieceInputs& in, const device::DividedTensor& divided) {
  const std::vector<device::DeviceSlot> slots = OnDevice(in.slots);
  std::vector<FrameJob> frames;
  for (const device::Piece& piece : divided.of_others)
    frames.push_back({in.gradient.data() + piece.begin, piece.n, SlotsOf(piece, slots)});
  return frames;
}

class DeviceEncodePiecesKernel : public JointEncodeKernel {
 public:
  using JointEncodeKernel::JointEncodeKernel;

 private:
  absl::Status Read(OpKernelContext* ctx, EncodeJob* job) override {
    PieceInputs in;
    TF_RETURN_IF_ERROR(ReadPieceInputs(ctx, &compressors_, GradientBuffer::kKeep, &in));
    const auto divided = device::Divide(in.cuts, in.own);
    TF_RETURN_IF_ERROR(ToTensorFlow(divided.status()));
    const std::vector<device::Piece>& others = divided.value().of_others;
    job->compressor = in.compressor;
    job->seed = in.seed;
    job->num_elements = in.gradient.size();
    job->frames = FramesOf(in, divided.value());
    job->prepare = [in, own = divided.value().own](cudaStream_t stream) -> Status {
      TFC_ASSIGN_OR_RETURN(const device::DeviceSpec spec, device::DeviceSpecOf(*in.compressor));
      return KeepOwn(spec.memory, in.gradient.data(), OnDevice(in.slots), own, stream);
    };
    job->on_host = [ctx, in, others](EncodedCounts* counts) {
      std::vector<int64_t> num_bytes(in.num_ranks());
      PieceCounts of_ranks{Span<int64_t>(num_bytes)};
      TF_RETURN_IF_ERROR(EncodePiecesOnHost(ctx, in, &of_ranks));
      for (const device::Piece& piece : others) counts->num_bytes.push_back(num_bytes[piece.rank]);
      counts->num_sent = of_ranks.num_sent;
      return absl::OkStatus();
    };
    job->finish = [ctx, num_ranks = in.num_ranks(), others](const EncodedCounts& counts,
                                                            int64_t nanoseconds) {
      std::vector<int64_t> num_bytes(num_ranks);
      for (size_t i = 0; i < others.size(); ++i) num_bytes[others[i].rank] = counts.num_bytes[i];
      return OutputPieceCounts(ctx, num_bytes, counts.num_sent, nanoseconds);
    };
    return absl::OkStatus();
  }

  CompressorCache compressors_;
};

absl::Status EncodeSumOnHost(OpKernelContext* ctx, const OwnPieceInputs& in, int64_t* num_sent) {
  HostCopies copies(ctx);
  std::vector<float*> gradient, others, slots;
  const float* const others_dev = in.others.flat<float>().data();
  TF_RETURN_IF_ERROR(copies.Take({&others_dev, 1}, in.n, &others));
  if (in.slots.empty()) {
    TF_RETURN_IF_ERROR(copies.Take({&in.gradient, 1}, in.n, &gradient));
  } else {
    const std::vector<const float*> slots_dev(in.slots.begin(), in.slots.end());
    TF_RETURN_IF_ERROR(copies.Take(slots_dev, in.n, &slots));
  }
  TF_RETURN_IF_ERROR(copies.Wait());
  PoolExecutor executor(ctx);
  Bytes frame;
  TF_RETURN_IF_ERROR(ToTensorFlow(
      EncodeSum(*in.compressor, gradient.empty() ? nullptr : gradient[0], Span<float* const>(slots),
                {others[0], in.n}, {in.seed, &executor, in.grid}, &frame, num_sent)));
  TF_RETURN_IF_ERROR(copies.PutBack(slots, in.n, in.slots));
  return OutputFrames(ctx, frame);
}

class DeviceEncodeSumKernel : public JointEncodeKernel {
 public:
  using JointEncodeKernel::JointEncodeKernel;

 private:
  absl::Status Read(OpKernelContext* ctx, EncodeJob* job) override {
    OwnPieceInputs in;
    const auto copy = [ctx](const Tensor& from, void* to) {
      return ToTensorFlow(CopyOnDevice(from.data(), from.TotalBytes(), to, StreamOf(ctx)));
    };
    TF_RETURN_IF_ERROR(ReadOwnPieceInputs(ctx, &compressors_, copy, &in));
    job->finish = [ctx](const EncodedCounts& counts, int64_t nanoseconds) {
      return OutputFrameCounts(ctx, counts.num_sent, nanoseconds);
    };
    if (in.n == 0) return OutputFrames(ctx, {});
    float* const others = in.others.flat<float>().data();
    job->compressor = in.compressor;
    job->rule = device::MemoryRule::kPlainSum;
    job->seed = in.seed;
    job->num_elements = in.n;
    std::vector<device::DeviceSlot> slots;
    for (float* slot : in.slots) slots.push_back({slot, slot});
    job->frames = {{others, in.n, slots}};
    if (in.slots.empty()) {
      job->prepare = [own = in.gradient, n = in.n, others](cudaStream_t stream) {
        return device::AddOwnPart(own, n, others, stream);
      };
    }
    job->on_host = [ctx, in](EncodedCounts* counts) {
      return EncodeSumOnHost(ctx, in, &counts->num_sent);
    };
    return absl::OkStatus();
  }

  CompressorCache compressors_;
};

[[maybe_unused]] const bool registered =
    RegisterDeviceKernel<DeviceEncodePiecesKernel>(
        "Tfcompress>EncodePieces",
        {"cuts", "own", "seed", "spec", "num_bytes", "num_sent", "nanoseconds"}, "frames") &&
    RegisterDeviceKernel<DeviceEncodeSumKernel>(
        "Tfcompress>EncodeSum", {"begin", "seed", "spec", "num_sent", "nanoseconds"}, "frame");

}  // namespace
}  // namespace tfcompress
