#include <vector>

#include "cuda/linear_coder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/kernel_io.h"
#include "tf/linear_io.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

constexpr int kNanoseconds = 1;  // After the payload.

absl::Status EncodeOnDevice(OpKernelContext* ctx, const LinearEncodeInputs& inputs) {
  const auto made = device::LinearCoder::Make(*inputs.compressor, static_cast<uint64_t>(inputs.n));
  TF_RETURN_IF_ERROR(ToTensorFlow(made.status()));
  const device::LinearCoder& coder = made.value();
  OwnedBuffer workspace;
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, coder.encode_workspace_bytes(), &workspace));
  std::vector<device::DevicePart> parts;
  for (const Span<const float>& part : inputs.parts) parts.push_back({part.data(), part.size()});
  return ToTensorFlow(
      coder.Encode(parts, inputs.seed, workspace, inputs.payload.data(), StreamOf(ctx)));
}

class DeviceLinearEncodeKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    LinearEncodeInputs inputs;
    TF_RETURN_IF_ERROR(ReadLinearEncodeInputs(ctx, &compressors_, &inputs));
    const auto work = [&] { return EncodeOnDevice(ctx, inputs); };
    int64_t nanoseconds = 0;
    TF_RETURN_IF_ERROR(TimeOnStream(ctx, work, &nanoseconds));
    return OutputScalar(ctx, kNanoseconds, nanoseconds);
  }

  LinearCompressorCache compressors_;
};

[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceLinearEncodeKernel>(
    "Tfcompress>LinearEncode", {"seed", "spec", "nanoseconds"});

}  // namespace
}  // namespace tfcompress
