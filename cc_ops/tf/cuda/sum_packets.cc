#include "tf/cuda/sum_packets.h"

#include <algorithm>

#include "cuda/sum_decoder.h"
#include "tf/pool_executor.h"

namespace tfcompress {

using tensorflow::OpKernelContext;

absl::Status SumPackets(OpKernelContext* ctx, const std::string& subject,
                        const PacketsView& packets, const std::vector<int64_t>& positions,
                        float scale, const std::vector<SumTarget>& targets,
                        std::vector<DecodeStats>* stats) {
  GivenPackets given(ctx, packets.bytes);
  TF_RETURN_IF_ERROR(given.ReadHeaders(std::max<int64_t>(packets.num_ranks, 0) *
                                       std::max<int64_t>(packets.num_frames, 0)));
  PacketsView view = packets;
  view.bytes = given.on_host();
  const auto make = [&] { return device::SumDecoder::Make(view, positions, targets); };
  const auto on_host = [&](const std::vector<SumTarget>& sums, Executor* executor) {
    return DecodeSum(view, positions, scale, sums, executor, Span<DecodeStats>(*stats));
  };
  return RunTask(ctx, subject, make, {&given, scale, targets, stats, on_host});
}

absl::Status DecodeOnHost(OpKernelContext* ctx, const SumTask& task) {
  const size_t num_targets = task.targets.size();
  std::vector<tensorflow::Tensor> owners(num_targets);
  std::vector<SumTarget> sums = task.targets;
  const auto size_of = [&](size_t i) { return sums[i].n * DTypeBytes(sums[i].dtype); };
  for (size_t i = 0; i < num_targets; ++i) {
    TF_RETURN_IF_ERROR(AllocatePinned(ctx, size_of(i), &owners[i]));
    sums[i].data = owners[i].data();
  }
  PoolExecutor executor(ctx);
  TF_RETURN_IF_ERROR(ToTensorFlow(task.on_host(sums, &executor)));
  Status status = OkStatus();
  for (size_t i = 0; i < num_targets && status.ok(); ++i)
    status = CopyToDevice(sums[i].data, size_of(i), task.targets[i].data, StreamOf(ctx));
  const Status waited = WaitFor(StreamOf(ctx));  // For those before one that failed, too.
  return ToTensorFlow(status.ok() ? waited : status);
}

void ShareTime(int64_t nanoseconds, const SumTask& task) {
  std::vector<uint64_t> sizes;
  for (const SumTarget& target : task.targets) sizes.push_back(target.n);
  const std::vector<int64_t> shares = ShareTime(nanoseconds, sizes);
  for (size_t i = 0; i < sizes.size(); ++i) (*task.stats)[i].nanoseconds = shares[i];
}

}  // namespace tfcompress
