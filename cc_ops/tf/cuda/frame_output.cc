#include "tf/cuda/frame_output.h"

#include <cstring>

#include "cuda/encode_state.h"
#include "tf/status_conversion.h"

namespace tfcompress {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status AllocateFrames(OpKernelContext* ctx, uint64_t num_bytes, Tensor** frames) {
  return ctx->allocate_output(0, {static_cast<int64_t>(num_bytes)}, frames, Pinned());
}

absl::Status OutputFrames(OpKernelContext* ctx, const Bytes& frames) {
  Tensor* output;
  TF_RETURN_IF_ERROR(AllocateFrames(ctx, frames.size(), &output));
  if (!frames.empty()) std::memcpy(output->data(), frames.data(), frames.size());
  return absl::OkStatus();
}

absl::Status EncodeOnDevice(OpKernelContext* ctx, const device::FrameEncoder& encoder,
                            const EncodeTask& task, int64_t* num_sent, int64_t* nanoseconds,
                            const std::function<Status(cudaStream_t)>& prepare) {
  Tensor workspace_owner, frame_owner, state_owner;
  device::DeviceBuffer workspace, frame_dev;
  TF_RETURN_IF_ERROR(
      AllocateOnDevice(ctx, encoder.workspace_bytes(), &workspace_owner, &workspace));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, encoder.max_frame_bytes(), &frame_owner, &frame_dev));
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, sizeof(device::EncodeState), &state_owner));
  auto* const state = static_cast<device::EncodeState*>(state_owner.data());
  const auto launch = [&]() -> absl::Status {
    if (prepare) TF_RETURN_IF_ERROR(ToTensorFlow(prepare(StreamOf(ctx))));
    const device::FrameInput input = {task.gradient_dev, task.slots, task.seed, frame_dev};
    return ToTensorFlow(encoder.Launch({&input, 1}, workspace, StreamOf(ctx), state));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, launch, nanoseconds));
  uint64_t num_bytes = 0;
  TF_RETURN_IF_ERROR(ToTensorFlow(device::FrameEncoder::ReadLength(*state, &num_bytes)));
  *num_sent = state->k;
  Tensor* frame;
  TF_RETURN_IF_ERROR(AllocateFrames(ctx, num_bytes, &frame));
  const DeviceBytes written = {frame_dev.data_dev, num_bytes, frame->data()};
  return ToTensorFlow(CopyCompleteToHost({&written, 1}));
}

}  // namespace tfcompress
