#include <memory>
#include <vector>

#include "core/pipeline.h"
#include "cuda/frame_encoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/coder_cache.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/device_or_host.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/frame_output.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/encode_io.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

constexpr int kNanoseconds = 1;  // Output.

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
  return OutputFrames(ctx, bytes);
}

using EncoderCache = CoderCache<device::FrameEncoder, Compressor, DType, uint64_t>;

absl::Status EncodeEither(OpKernelContext* ctx, const EncodeInputs& input, EncoderCache* encoders,
                          int64_t* nanoseconds) {
  const auto on_device = [&](const std::shared_ptr<const device::FrameEncoder>& encoder) {
    int64_t num_sent = 0;  // It is in the frame.
    return EncodeOnDevice(ctx, *encoder, {input.gradient.data, OnDevice(input.slots), input.seed},
                          &num_sent, nanoseconds);
  };
  return OnDeviceOrHost(
      ctx, "encoding '" + input.compressor->spec() + "'",
      encoders->Get(input.compressor, input.gradient.dtype, input.gradient.n), on_device,
      [&] { return EncodeOnHost(ctx, input); }, nanoseconds);
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
