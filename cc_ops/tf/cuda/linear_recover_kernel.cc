#include <vector>

#include "cuda/linear_coder.h"
#include "cuda/wide_indices.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/host_copies.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/run_on_host.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/kernel_io.h"
#include "tf/linear_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr int kNanoseconds = 2;  // After indices and values.

// Both on the device.
struct Candidates {
  int64_t* indices = nullptr;
  float* values = nullptr;
};

absl::Status AllocateCandidates(OpKernelContext* ctx, int64_t count, Candidates* candidates) {
  Tensor *indices, *values;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {count}, &indices));
  TF_RETURN_IF_ERROR(ctx->allocate_output(1, {count}, &values));
  *candidates = {indices->flat<int64_t>().data(), values->flat<float>().data()};
  return absl::OkStatus();
}

absl::Status RecoverOnDevice(OpKernelContext* ctx, const device::LinearCoder& coder,
                             const LinearRecoverInputs& inputs, const Candidates& candidates) {
  const cudaStream_t stream = StreamOf(ctx);
  const uint64_t count = coder.num_candidates();
  OwnedBuffer workspace, indices;
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, coder.recover_workspace_bytes(), &workspace));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, count * sizeof(uint32_t), &indices));
  auto* indices_dev = static_cast<uint32_t*>(indices.data_dev);
  TF_RETURN_IF_ERROR(ToTensorFlow(coder.Recover(inputs.summed.data(), inputs.seed, workspace,
                                                indices_dev, candidates.values, stream)));
  return ToTensorFlow(device::WidenIndices(indices_dev, count, candidates.indices, stream));
}

absl::Status RecoverOnHost(OpKernelContext* ctx, const LinearRecoverInputs& inputs,
                           const Candidates& candidates) {
  const cudaStream_t stream = StreamOf(ctx);
  HostCopies copies(ctx);
  void* summed;
  TF_RETURN_IF_ERROR(
      copies.Take(inputs.summed.data(), inputs.summed.size() * sizeof(float), &summed));
  TF_RETURN_IF_ERROR(copies.Wait());
  PoolExecutor executor(ctx);
  std::vector<uint32_t> indices;
  std::vector<float> values;
  TF_RETURN_IF_ERROR(ToTensorFlow(
      inputs.compressor->codec().Recover({static_cast<const float*>(summed), inputs.summed.size()},
                                         inputs.n, {inputs.seed, &executor}, &indices, &values)));
  const std::vector<int64_t> wide(indices.begin(), indices.end());
  TF_RETURN_IF_ERROR(ToTensorFlow(
      CopyToDevice(wide.data(), wide.size() * sizeof(int64_t), candidates.indices, stream)));
  TF_RETURN_IF_ERROR(ToTensorFlow(
      CopyToDevice(values.data(), values.size() * sizeof(float), candidates.values, stream)));
  return ToTensorFlow(WaitFor(stream));
}

absl::Status RecoverEither(OpKernelContext* ctx, const LinearRecoverInputs& inputs) {
  const auto made = device::LinearCoder::Make(*inputs.compressor, static_cast<uint64_t>(inputs.n));
  TF_RETURN_IF_ERROR(ToTensorFlow(made.status()));
  const device::LinearCoder& coder = made.value();
  Candidates candidates;
  TF_RETURN_IF_ERROR(
      AllocateCandidates(ctx, static_cast<int64_t>(coder.num_candidates()), &candidates));
  const Status recovers = coder.CheckRecovers();
  if (recovers.ok()) return RecoverOnDevice(ctx, coder, inputs, candidates);
  TF_RETURN_IF_ERROR(RecoverOnHost(ctx, inputs, candidates));
  WarnOnceOfHost("recovering '" + inputs.compressor->spec() + "'", recovers);
  return absl::OkStatus();
}

class DeviceLinearRecoverKernel : public StreamKernel {
 public:
  using StreamKernel::StreamKernel;

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    LinearRecoverInputs inputs;
    TF_RETURN_IF_ERROR(ReadLinearRecoverInputs(ctx, &compressors_, &inputs));
    const auto work = [&] { return RecoverEither(ctx, inputs); };
    int64_t nanoseconds = 0;
    TF_RETURN_IF_ERROR(TimeOnStream(ctx, work, &nanoseconds));
    return OutputScalar(ctx, kNanoseconds, nanoseconds);
  }

  LinearCompressorCache compressors_;
};

[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceLinearRecoverKernel>(
    "Tfcompress>LinearRecover", {"n", "seed", "spec", "nanoseconds"});

}  // namespace
}  // namespace tfcompress
