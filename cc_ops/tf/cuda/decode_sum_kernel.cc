#include <algorithm>
#include <vector>

#include "core/pipeline.h"
#include "cuda/sum_decoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/cuda/warn_once.h"
#include "tf/decode_sum_io.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Arguments of summing, on the device or on the host: packets on the host, targets on the device.
struct Task {
  const SumInputs& inputs;
  const std::vector<int64_t>& positions;
  const std::vector<SumTarget>& targets;
};

std::vector<device::DeviceTarget> OnDevice(const std::vector<SumTarget>& targets) {
  std::vector<device::DeviceTarget> on_device;
  for (const SumTarget& target : targets)
    on_device.push_back({target.data, target.dtype, target.n});
  return on_device;
}

absl::Status SumOnDevice(OpKernelContext* ctx, const device::SumDecoder& decoder, const Task& task,
                         std::vector<DecodeStats>* stats, int64_t* nanoseconds) {
  const ByteSpan packets = task.inputs.packets.bytes;
  Tensor workspace_owner, packets_owner, pinned, host;
  device::DeviceBuffer workspace, packets_dev;
  TF_RETURN_IF_ERROR(
      AllocateOnDevice(ctx, decoder.workspace_bytes(), &workspace_owner, &workspace));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, packets.size(), &packets_owner, &packets_dev));
  // From other memory than pinned, a copy would first wait for all that is on the stream.
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, packets.size(), &pinned));
  std::copy(packets.begin(), packets.end(), static_cast<unsigned char*>(pinned.data()));
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, decoder.host_bytes(), &host));
  const auto launch = [&]() -> absl::Status {
    const cudaStream_t stream = StreamOf(ctx);
    TF_RETURN_IF_ERROR(
        ToTensorFlow(CopyToDevice(pinned.data(), packets.size(), packets_dev.data_dev, stream)));
    return ToTensorFlow(decoder.Launch(static_cast<const unsigned char*>(packets_dev.data_dev),
                                       task.inputs.scale, workspace, stream, host.data()));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, launch, nanoseconds));
  return ToTensorFlow(decoder.Report(host.data(), Span<DecodeStats>(*stats)));
}

absl::Status SumOnHost(OpKernelContext* ctx, const Task& task, std::vector<DecodeStats>* stats) {
  std::vector<Tensor> owners(task.targets.size());
  std::vector<SumTarget> sums = task.targets;
  for (size_t i = 0; i < sums.size(); ++i) {
    TF_RETURN_IF_ERROR(AllocatePinned(ctx, sums[i].n * DTypeBytes(sums[i].dtype), &owners[i]));
    sums[i].data = owners[i].data();
  }
  PoolExecutor executor(ctx);
  TF_RETURN_IF_ERROR(ToTensorFlow(DecodeSum(task.inputs.packets, task.positions, task.inputs.scale,
                                            sums, &executor, Span<DecodeStats>(*stats))));
  for (size_t i = 0; i < sums.size(); ++i) {
    TF_RETURN_IF_ERROR(ToTensorFlow(CopyToDevice(
        sums[i].data, sums[i].n * DTypeBytes(sums[i].dtype), task.targets[i].data, StreamOf(ctx))));
  }
  return ToTensorFlow(WaitFor(StreamOf(ctx)));
}

// Divides the measured time among the tensors in proportion to their elements.
void ShareTime(int64_t nanoseconds, const std::vector<SumTarget>& targets,
               std::vector<DecodeStats>* stats) {
  double num_elements = 0;
  for (const SumTarget& target : targets) num_elements += static_cast<double>(target.n);
  for (size_t i = 0; i < targets.size(); ++i) {
    const double share = num_elements == 0 ? 0 : static_cast<double>(targets[i].n) / num_elements;
    (*stats)[i].nanoseconds = static_cast<int64_t>(share * static_cast<double>(nanoseconds));
  }
}

class DeviceDecodeSumKernel : public StreamKernel {
 public:
  explicit DeviceDecodeSumKernel(OpKernelConstruction* ctx) : StreamKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    SumInputs inputs;
    TF_RETURN_IF_ERROR(ReadSumInputs(ctx, attributes_, &inputs));
    std::vector<SumTarget> targets;
    TF_RETURN_IF_ERROR(AllocateSums(ctx, nullptr, &targets));
    std::vector<DecodeStats> stats(targets.size());
    int64_t nanoseconds = 0;
    TF_RETURN_IF_ERROR(
        SumEither(ctx, {inputs, attributes_.positions, targets}, &stats, &nanoseconds));
    ShareTime(nanoseconds, targets, &stats);
    return OutputStats(ctx, stats);
  }

  // Sums on the device, or on the host if Make returns InvalidArgument: either a codec has no
  // device variant, or the argument is bad and the host refuses it, too.
  absl::Status SumEither(OpKernelContext* ctx, const Task& task, std::vector<DecodeStats>* stats,
                         int64_t* nanoseconds) {
    const auto decoder =
        device::SumDecoder::Make(task.inputs.packets, task.positions, OnDevice(task.targets));
    if (decoder.ok()) return SumOnDevice(ctx, decoder.value(), task, stats, nanoseconds);
    if (decoder.status().code() != StatusCode::kInvalidArgument)
      return ToTensorFlow(decoder.status());
    const auto work = [&] { return SumOnHost(ctx, task, stats); };
    TF_RETURN_IF_ERROR(TimeOnStream(ctx, work, nanoseconds));
    WarnOnceOfHost("decoding in '" + name() + "'", decoder.status());
    return absl::OkStatus();
  }

  SumAttributes attributes_;
};

[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceDecodeSumKernel>(
    "Tfcompress>DecodeSum",
    {"packets", "num_ranks", "scale", "shapes", "num_bytes", "nanoseconds", "finite"});

}  // namespace
}  // namespace tfcompress
