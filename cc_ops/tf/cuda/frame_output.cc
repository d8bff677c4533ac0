#include "tf/cuda/frame_output.h"

#include <cstring>

#include "tf/cuda/device_memory.h"

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

}  // namespace tfcompress
