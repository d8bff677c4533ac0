// Decoding of packets, for sums that are on the device.
#ifndef TFCOMPRESS_TF_CUDA_SUM_PACKETS_H_
#define TFCOMPRESS_TF_CUDA_SUM_PACKETS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/executor.h"
#include "core/packets.h"
#include "core/pipeline.h"
#include "core/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/given_packets.h"
#include "tf/cuda/run_on_host.h"

namespace tfcompress {

// Packets, and what becomes of them.
struct SumTask {
  GivenPackets* packets;
  float scale;
  const std::vector<SumTarget>& targets;  // On the device.
  std::vector<DecodeStats>* stats;        // Of the targets.
  // Decodes by the core, to targets of the same sizes in host memory.
  std::function<Status(const std::vector<SumTarget>& sums, Executor* executor)> on_host;
};

// Sums the frames at `positions`, with one target each, by RunTask. `packets` are those that the
// kernel was given. Fails as DecodeSum does.
absl::Status SumPackets(tensorflow::OpKernelContext* ctx, const std::string& subject,
                        const PacketsView& packets, const std::vector<int64_t>& positions,
                        float scale, const std::vector<SumTarget>& targets,
                        std::vector<DecodeStats>* stats);

// Decodes on the device, by a SumDecoder or a PieceDecoder that was made for these packets.
template <typename Decoder>
absl::Status DecodeOnDevice(tensorflow::OpKernelContext* ctx, const Decoder& decoder,
                            const SumTask& task, int64_t* nanoseconds) {
  OwnedBuffer workspace;
  tensorflow::Tensor host;
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, decoder.workspace_bytes(), &workspace));
  TF_RETURN_IF_ERROR(task.packets->AllocateCopy());
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, decoder.host_bytes(), &host));
  const auto launch = [&]() -> absl::Status {
    TF_RETURN_IF_ERROR(task.packets->CopyToDevice());
    return ToTensorFlow(decoder.Launch(task.packets->data_dev(), task.scale, workspace,
                                       StreamOf(ctx), host.data()));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, launch, nanoseconds));
  const Span<DecodeStats> stats(*task.stats);
  const Status status = decoder.Report(host.data(), stats);
  if (status.ok() || task.packets->is_complete()) return ToTensorFlow(status);
  // What is wrong is told from the sections.
  TF_RETURN_IF_ERROR(task.packets->Complete());
  task.stats->assign(stats.size(), {});
  return ToTensorFlow(decoder.Report(host.data(), stats));
}

// Decodes on the host, and copies the sums to the device.
absl::Status DecodeOnHost(tensorflow::OpKernelContext* ctx, const SumTask& task);

// Divides the measured time among the targets in proportion to their elements.
void ShareTime(int64_t nanoseconds, const SumTask& task);

// Decodes on the device, by the decoder that make() makes of the packets, or, if it makes none
// because of an InvalidArgument, on the host: either a codec has no device variant, which is logged
// once as the `subject`, or the argument is bad and the host refuses it, too.
template <typename Make>
absl::Status RunTask(tensorflow::OpKernelContext* ctx, const std::string& subject, const Make& make,
                     const SumTask& task) {
  int64_t nanoseconds = 0;
  auto decoder = make();
  if (!decoder.ok() && !task.packets->is_complete()) {
    TF_RETURN_IF_ERROR(task.packets->Complete());
    decoder = make();
  }
  if (decoder.ok()) {
    TF_RETURN_IF_ERROR(DecodeOnDevice(ctx, decoder.value(), task, &nanoseconds));
  } else if (decoder.status().code() == StatusCode::kInvalidArgument) {
    const auto on_host = [&] { return DecodeOnHost(ctx, task); };
    TF_RETURN_IF_ERROR(RunOnHost(ctx, subject, decoder.status(), on_host, &nanoseconds));
  } else {
    return ToTensorFlow(decoder.status());
  }
  ShareTime(task.packets->nanoseconds() + nanoseconds, task);
  return absl::OkStatus();
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_SUM_PACKETS_H_
