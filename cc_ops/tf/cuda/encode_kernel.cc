#include <cstring>
#include <vector>

#include "core/pipeline.h"
#include "cuda/frame_encoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/coder_cache.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/cuda/warn_once.h"
#include "tf/encode_io.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr int kFrame = 0, kNanoseconds = 1;  // Outputs.

absl::Status AllocateFrame(OpKernelContext* ctx, uint64_t num_bytes, Tensor** frame) {
  return ctx->allocate_output(kFrame, {static_cast<int64_t>(num_bytes)}, frame, Pinned());
}

absl::Status EncodeOnDevice(OpKernelContext* ctx, const device::FrameEncoder& encoder,
                            const EncodeInputs& input, int64_t* nanoseconds) {
  Tensor workspace_owner, frame_owner, state_owner;
  device::DeviceBuffer workspace, frame_dev;
  TF_RETURN_IF_ERROR(
      AllocateOnDevice(ctx, encoder.workspace_bytes(), &workspace_owner, &workspace));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, encoder.max_frame_bytes(), &frame_owner, &frame_dev));
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, sizeof(device::EncodeState), &state_owner));
  auto* const state = static_cast<device::EncodeState*>(state_owner.data());
  const std::vector<device::DeviceSlot> slots = OnDevice(input.slots);
  const auto launch = [&] {
    return ToTensorFlow(encoder.Launch(input.gradient.data, slots, input.seed, workspace, frame_dev,
                                       StreamOf(ctx), state));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, launch, nanoseconds));
  uint64_t num_bytes = 0;
  TF_RETURN_IF_ERROR(ToTensorFlow(device::FrameEncoder::ReadLength(*state, &num_bytes)));
  Tensor* frame;
  TF_RETURN_IF_ERROR(AllocateFrame(ctx, num_bytes, &frame));
  const DeviceBytes written = {frame_dev.data_dev, num_bytes, frame->data()};
  return ToTensorFlow(CopyCompleteToHost({&written, 1}));
}

absl::Status EncodeOnHost(OpKernelContext* ctx, const EncodeInputs& input) {
  const GradientView& given = input.gradient;
  HostCopies copies(ctx);
  void* gradient;
  std::vector<float*> slots;
  TF_RETURN_IF_ERROR(copies.Take(given.data, given.n * DTypeBytes(given.dtype), &gradient));
  TF_RETURN_IF_ERROR(copies.Take(input.slots.before, given.n, &slots));
  TF_RETURN_IF_ERROR(copies.Wait());
  PoolExecutor executor(ctx);
  Bytes bytes;
  TF_RETURN_IF_ERROR(ToTensorFlow(EncodeFrame(*input.compressor, {gradient, given.dtype, given.n},
                                              Span<float* const>(slots),
                                              {input.seed, &executor, input.grid}, &bytes)));
  TF_RETURN_IF_ERROR(copies.PutBack(slots, given.n, input.slots.after));
  Tensor* frame;
  TF_RETURN_IF_ERROR(AllocateFrame(ctx, bytes.size(), &frame));
  std::memcpy(frame->data(), bytes.data(), bytes.size());
  return absl::OkStatus();
}

using EncoderCache = CoderCache<device::FrameEncoder, Compressor, DType, uint64_t>;

absl::Status EncodeEither(OpKernelContext* ctx, const EncodeInputs& input, EncoderCache* encoders,
                          int64_t* nanoseconds) {
  const auto encoder = encoders->Get(input.compressor, input.gradient.dtype, input.gradient.n);
  if (encoder.ok()) return EncodeOnDevice(ctx, *encoder.value(), input, nanoseconds);
  if (encoder.status().code() != StatusCode::kInvalidArgument)
    return ToTensorFlow(encoder.status());
  const auto work = [&] { return EncodeOnHost(ctx, input); };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, work, nanoseconds));
  WarnOnceOfHost("encoding '" + input.compressor->spec() + "'", encoder.status());
  return absl::OkStatus();
}

class DeviceEncodeKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    EncodeInputs inputs;
    TF_RETURN_IF_ERROR(ReadEncodeInputs(ctx, &compressors_, GradientBuffer::kKeep, &inputs));
    int64_t nanoseconds = 0;
    TF_RETURN_IF_ERROR(EncodeEither(ctx, inputs, &encoders_, &nanoseconds));
    return OutputScalar(ctx, kNanoseconds, nanoseconds);
  }

  CompressorCache compressors_;
  EncoderCache encoders_;
};

// The frame is copied to the host. The host needs its length anyway, for the shape of the output;
// it joins, pads and checks the packet; every build of Horovod can gather there (Gloo and MPI
// nowhere else); and DecodeSum reads headers there. A frame is a hundredth of its gradient: an
// all-gather by NCCL would save less than copying all ranks' packets back costs.
[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceEncodeKernel>(
    "Tfcompress>Encode", {"seed", "spec", "frame", "nanoseconds"});

}  // namespace
}  // namespace tfcompress
