#include <vector>

#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/frame_output.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/joint_encode_kernel.h"
#include "tf/cuda/register_device_kernel.h"
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

class DeviceEncodeKernel : public JointEncodeKernel {
 public:
  using JointEncodeKernel::JointEncodeKernel;

 private:
  absl::Status Read(OpKernelContext* ctx, EncodeJob* job) override {
    EncodeInputs inputs;
    TF_RETURN_IF_ERROR(ReadEncodeInputs(ctx, &compressors_, GradientBuffer::kKeep, &inputs));
    job->compressor = inputs.compressor;
    job->dtype = inputs.gradient.dtype;
    job->gradient_dev = inputs.gradient.data;
    job->n = inputs.gradient.n;
    job->slots = OnDevice(inputs.slots);
    job->seed = inputs.seed;
    job->on_host = [ctx, inputs](int64_t*) { return EncodeOnHost(ctx, inputs); };
    return absl::OkStatus();
  }

  // The number of elements is in the frame.
  absl::Status Finish(OpKernelContext* ctx, int64_t, int64_t nanoseconds) override {
    return OutputScalar(ctx, kNanoseconds, nanoseconds);
  }

  CompressorCache compressors_;
};

// The frame is copied to the host. The host needs its length anyway, for the shape of the output;
// it joins, pads and checks the packet; every build of Horovod can gather there (Gloo and MPI
// nowhere else); and DecodeSum reads headers there.
[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceEncodeKernel>(
    "Tfcompress>Encode", {"seed", "spec", "frame", "nanoseconds"});

}  // namespace
}  // namespace tfcompress
