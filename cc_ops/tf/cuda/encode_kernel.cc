#include <vector>

#include "core/frame.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/joint_encode_kernel.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/encode_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

absl::Status EncodeOnHost(OpKernelContext* ctx, const EncodeInputs& input, int64_t* num_sent) {
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
  TF_RETURN_IF_ERROR(ToTensorFlow(CountSent(bytes, num_sent)));
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
    job->seed = inputs.seed;
    job->num_elements = inputs.gradient.n;
    job->frames = {{inputs.gradient.data, inputs.gradient.n, OnDevice(inputs.slots)}};
    job->on_host = [ctx, inputs](EncodedCounts* counts) {
      return EncodeOnHost(ctx, inputs, &counts->num_sent);
    };
    job->finish = [ctx](const EncodedCounts& counts, int64_t nanoseconds) {
      return OutputFrameCounts(ctx, counts.num_sent, nanoseconds);
    };
    return absl::OkStatus();
  }

  CompressorCache compressors_;
};

[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceEncodeKernel>(
    "Tfcompress>Encode", {"seed", "spec", "num_sent", "nanoseconds"}, "frame");

}  // namespace
}  // namespace tfcompress
