#include "tf/cuda/sum_packets.h"

#include "cuda/sum_decoder.h"
#include "tf/cuda/device_or_host.h"
#include "tf/pool_executor.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status SumOnHost(OpKernelContext* ctx, const SumTask& task, std::vector<DecodeStats>* stats) {
  std::vector<Tensor> owners;
  std::vector<SumTarget> sums;
  TF_RETURN_IF_ERROR(AllocateOnHost(ctx, task.targets, &owners, &sums));
  PoolExecutor executor(ctx);
  TF_RETURN_IF_ERROR(ToTensorFlow(DecodeSum(task.packets, task.positions, task.scale, sums,
                                            &executor, Span<DecodeStats>(*stats))));
  return CopySums(ctx, sums, task.targets);
}

}  // namespace

absl::Status SumPackets(OpKernelContext* ctx, const std::string& subject, const SumTask& task,
                        std::vector<DecodeStats>* stats) {
  int64_t nanoseconds = 0;
  const auto on_device = [&](const device::SumDecoder& decoder) {
    return DecodeOnDevice(ctx, decoder, task.packets.bytes, task.scale, stats, &nanoseconds);
  };
  TF_RETURN_IF_ERROR(OnDeviceOrHost(
      ctx, subject, device::SumDecoder::Make(task.packets, task.positions, task.targets), on_device,
      [&] { return SumOnHost(ctx, task, stats); }, &nanoseconds));
  ShareTime(nanoseconds, task.targets, stats);
  return absl::OkStatus();
}

void ShareTime(int64_t nanoseconds, const std::vector<SumTarget>& targets,
               std::vector<DecodeStats>* stats) {
  std::vector<uint64_t> sizes;
  for (const SumTarget& target : targets) sizes.push_back(target.n);
  const std::vector<int64_t> shares = ShareTime(nanoseconds, sizes);
  for (size_t i = 0; i < targets.size(); ++i) (*stats)[i].nanoseconds = shares[i];
}

absl::Status CopySums(OpKernelContext* ctx, const std::vector<SumTarget>& from,
                      const std::vector<SumTarget>& to_dev) {
  Status status = OkStatus();
  for (size_t i = 0; i < from.size() && status.ok(); ++i) {
    status = CopyToDevice(from[i].data, from[i].n * DTypeBytes(from[i].dtype), to_dev[i].data,
                          StreamOf(ctx));
  }
  const Status waited = WaitFor(StreamOf(ctx));  // For those before one that failed, too.
  return ToTensorFlow(status.ok() ? waited : status);
}

absl::Status AllocateOnHost(OpKernelContext* ctx, const std::vector<SumTarget>& like,
                            std::vector<Tensor>* owners, std::vector<SumTarget>* targets) {
  owners->resize(like.size());
  *targets = like;
  for (size_t i = 0; i < like.size(); ++i) {
    TF_RETURN_IF_ERROR(AllocatePinned(ctx, like[i].n * DTypeBytes(like[i].dtype), &(*owners)[i]));
    (*targets)[i].data = (*owners)[i].data();
  }
  return absl::OkStatus();
}

}  // namespace tfcompress
