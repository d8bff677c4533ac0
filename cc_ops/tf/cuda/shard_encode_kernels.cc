#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "core/pieces.h"
#include "cuda/cuda_status.h"
#include "cuda/piece_encoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/coder_cache.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/device_or_host.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/frame_output.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/joint_encode_kernel.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/pool_executor.h"
#include "tf/shard_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Copies the frames to the host, end to end.
absl::Status CopyFrames(OpKernelContext* ctx, const device::PieceEncoder& encoder,
                        const device::DeviceBuffer& frames_dev, const PieceCounts& counts) {
  uint64_t total = 0;
  for (int64_t num_bytes : counts.num_bytes) total += static_cast<uint64_t>(num_bytes);
  Tensor* frames;
  TF_RETURN_IF_ERROR(AllocateFrames(ctx, total, &frames));
  std::vector<DeviceBytes> copies;
  auto* to = static_cast<unsigned char*>(frames->data());
  for (const auto& frame : encoder.frames()) {
    const auto num_bytes = static_cast<size_t>(counts.num_bytes[frame.rank]);
    copies.push_back(
        {static_cast<const unsigned char*>(frames_dev.data_dev) + frame.offset, num_bytes, to});
    to += num_bytes;
  }
  return ToTensorFlow(CopyCompleteToHost(copies));
}

absl::Status EncodePiecesOnDevice(OpKernelContext* ctx, const device::PieceEncoder& encoder,
                                  const PieceInputs& in, PieceCounts* counts,
                                  int64_t* nanoseconds) {
  Tensor workspace_owner, frames_owner, states_owner;
  device::DeviceBuffer workspace, frames;
  TF_RETURN_IF_ERROR(
      AllocateOnDevice(ctx, encoder.workspace_bytes(), &workspace_owner, &workspace));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, encoder.max_frames_bytes(), &frames_owner, &frames));
  const size_t state_bytes = encoder.frames().size() * sizeof(device::EncodeState);
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, state_bytes, &states_owner));
  auto* const states = static_cast<device::EncodeState*>(states_owner.data());
  const std::vector<device::DeviceSlot> slots = OnDevice(in.slots);
  const auto launch = [&] {
    return ToTensorFlow(encoder.Launch(in.gradient.data(), slots, in.seed, workspace, frames,
                                       StreamOf(ctx), states));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, launch, nanoseconds));
  TF_RETURN_IF_ERROR(ToTensorFlow(encoder.Read(states, counts)));
  return CopyFrames(ctx, encoder, frames, *counts);
}

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

class DeviceEncodePiecesKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    PieceInputs in;
    TF_RETURN_IF_ERROR(ReadPieceInputs(ctx, &compressors_, GradientBuffer::kKeep, &in));
    std::vector<int64_t> num_bytes(in.num_ranks());
    PieceCounts counts{Span<int64_t>(num_bytes)};
    int64_t nanoseconds = 0;
    TF_RETURN_IF_ERROR(EncodeEither(ctx, in, &counts, &nanoseconds));
    return OutputPieceCounts(ctx, num_bytes, counts.num_sent, nanoseconds);
  }

  absl::Status EncodeEither(OpKernelContext* ctx, const PieceInputs& in, PieceCounts* counts,
                            int64_t* nanoseconds) {
    const auto on_device = [&](const std::shared_ptr<const device::PieceEncoder>& encoder) {
      return EncodePiecesOnDevice(ctx, *encoder, in, counts, nanoseconds);
    };
    return OnDeviceOrHost(
        ctx, "encoding '" + in.compressor->spec() + "'",
        encoders_.Get(in.compressor, in.cuts, in.own), on_device,
        [&] { return EncodePiecesOnHost(ctx, in, counts); }, nanoseconds);
  }

  CompressorCache compressors_;
  CoderCache<device::PieceEncoder, Compressor, std::vector<int64_t>, int64_t> encoders_;
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

absl::Status CopyOnDevice(OpKernelContext* ctx, const Tensor& from, void* to) {
  return ToTensorFlow(device::FromCuda(
      cudaMemcpyAsync(to, from.data(), from.TotalBytes(), cudaMemcpyDeviceToDevice, StreamOf(ctx)),
      "copying a slot"));
}

class DeviceEncodeSumKernel : public JointEncodeKernel {
 public:
  using JointEncodeKernel::JointEncodeKernel;

 private:
  absl::Status Read(OpKernelContext* ctx, EncodeJob* job) override {
    OwnPieceInputs in;
    const auto copy = [ctx](const Tensor& from, void* to) { return CopyOnDevice(ctx, from, to); };
    TF_RETURN_IF_ERROR(ReadOwnPieceInputs(ctx, &compressors_, copy, &in));
    if (in.n == 0) return OutputFrames(ctx, {});
    float* const others = in.others.flat<float>().data();
    job->compressor = in.compressor;
    job->rule = device::MemoryRule::kPlainSum;
    job->gradient_dev = others;
    job->n = in.n;
    for (float* slot : in.slots) job->slots.push_back({slot, slot});
    job->seed = in.seed;
    if (in.slots.empty()) {
      job->prepare = [own = in.gradient, n = in.n, others](cudaStream_t stream) {
        return device::AddOwnPart(own, n, others, stream);
      };
    }
    job->on_host = [ctx, in](int64_t* num_sent) { return EncodeSumOnHost(ctx, in, num_sent); };
    return absl::OkStatus();
  }

  absl::Status Finish(OpKernelContext* ctx, int64_t num_sent, int64_t nanoseconds) override {
    return OutputSumCounts(ctx, num_sent, nanoseconds);
  }

  CompressorCache compressors_;
};

[[maybe_unused]] const bool registered =
    RegisterDeviceKernel<DeviceEncodePiecesKernel>(
        "Tfcompress>EncodePieces",
        {"cuts", "own", "seed", "spec", "frames", "num_bytes", "num_sent", "nanoseconds"}) &&
    RegisterDeviceKernel<DeviceEncodeSumKernel>(
        "Tfcompress>EncodeSum", {"begin", "seed", "spec", "frame", "num_sent", "nanoseconds"});

}  // namespace
}  // namespace tfcompress
