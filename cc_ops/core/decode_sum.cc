#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include "core/pipeline.h"
#include "core/product_codec.h"
#include "core/registry.h"
#include "core/seeded_support.h"

namespace tfcompress {
namespace {

// Below this many decoded elements a tensor is summed by one thread, beside other small tensors;
// above it the threads share the tensor.
constexpr uint64_t kSmallTensorElements = kBlockElements;

std::string Where(int64_t rank, size_t tensor) {
  return "rank " + std::to_string(rank) + ", tensor " + std::to_string(tensor);
}

Status CheckTarget(const FrameHeader& header, const SumTarget& target) {
  if (header.n != target.n)
    return DataLoss("frame of ", header.n, " elements, expected ", target.n);
  if (header.dtype != target.dtype) {
    return DataLoss("frame of ", DTypeName(header.dtype), ", expected ", DTypeName(target.dtype));
  }
  return OkStatus();
}

// The frames of all ranks, rank-major: frames[rank * targets.size() + tensor].
Result<std::vector<Frame>> ReadPackets(ByteSpan packets, int num_ranks,
                                       Span<const SumTarget> targets) {
  ByteReader reader(packets);
  // Grows as frames are read: a wrong number of ranks must end as an error, not as an allocation.
  std::vector<Frame> frames;
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (size_t tensor = 0; tensor < targets.size(); ++tensor) {
      Frame frame;
      Status status = ReadFrame(&reader, &frame);
      if (status.ok()) status = CheckTarget(frame.header, targets[tensor]);
      if (!status.ok()) return status.WithContext(Where(rank, tensor));
      frames.push_back(frame);
    }
  }
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("packets"));
  return frames;
}

// Adds scale * decoded to `sum`, cut by blocks of the universe: no two threads meet at an element.
void AddScaled(const SparseTensor& decoded, float scale, Executor* executor, Span<float> sum) {
  const float* values = decoded.values.data();
  if (decoded.everything) {
    ForEachBlock(executor, sum.size(), [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum[i] += scale * values[i];
    });
    return;
  }
  const std::vector<uint32_t>& indices = decoded.indices;
  // About kBlockElements sent elements a task, however thin they are spread.
  const int64_t num_tasks = std::max<int64_t>(1, NumBlocks(indices.size()));
  const auto universe_per_task = static_cast<int64_t>((sum.size() + num_tasks - 1) / num_tasks);
  const auto add = [&](int64_t, int64_t begin, int64_t end) {
    auto i = std::lower_bound(indices.begin(), indices.end(), static_cast<uint32_t>(begin)) -
             indices.begin();
    for (; i < static_cast<int64_t>(indices.size()) && indices[i] < end; ++i)
      sum[indices[i]] += scale * values[i];
  };
  ForEachBlock(executor, sum.size(), add, std::max<int64_t>(1, universe_per_task));
}

void Fill(float value, Executor* executor, Span<float> out) {
  ForEachBlock(executor, out.size(), [&](int64_t, int64_t begin, int64_t end) {
    std::fill(out.begin() + begin, out.begin() + end, value);
  });
}

// Sums tensor `tensor` over the ranks, one frame at a time in rank order.
Status SumTensor(Span<const Frame> frames, int num_ranks, size_t tensor, size_t num_tensors,
                 float scale, const SumTarget& target, Executor* executor) {
  std::vector<float> wide(target.dtype == DType::kFloat32 ? 0 : target.n);
  const bool in_place = target.dtype == DType::kFloat32;
  const Span<float> sum(in_place ? static_cast<float*>(target.data) : wide.data(),
                        static_cast<size_t>(target.n));
  Fill(0.0f, executor, sum);
  bool nonfinite = false;
  SparseTensor decoded;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Frame& frame = frames[rank * num_tensors + tensor];
    TFC_RETURN_IF_ERROR(DecodeFrame(frame, executor, &decoded).WithContext(Where(rank, tensor)));
    nonfinite |= frame.header.nonfinite;
    AddScaled(decoded, scale, executor, sum);
  }
  if (nonfinite) Fill(std::numeric_limits<float>::quiet_NaN(), executor, sum);
  if (!in_place) NarrowFromFloat(sum, target.dtype, executor, target.data);
  return OkStatus();
}

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Status DecodeFrame(const Frame& frame, Executor* executor, SparseTensor* out) {
  TFC_RETURN_IF_ERROR(VerifyChecksum(frame));
  const FrameHeader& header = frame.header;
  out->n = header.n;
  out->everything = header.support == SupportKind::kEverything && header.k > 0;
  out->indices.clear();
  out->values.clear();
  if (header.k == 0) return OkStatus();

  const CodecContext context{header.seed, executor};
  if (header.support == SupportKind::kJoint) {
    const SparseCodec* joint = DecoderById<SparseCodec>(header.value_id);
    if (joint == nullptr) return DataLoss("unknown joint codec id ", int{header.value_id});
    return joint->Decode(frame.sections, header.k, context, out);
  }
  static const SeededSupportCodec seeded;
  const IndexCodec* index =
      header.support == SupportKind::kSeeded ? &seeded : DecoderById<IndexCodec>(header.index_id);
  if (!out->everything && index == nullptr) {
    return DataLoss("unknown index codec id ", int{header.index_id});
  }
  const ValueCodec* value = DecoderById<ValueCodec>(header.value_id);
  if (value == nullptr) return DataLoss("unknown value codec id ", int{header.value_id});
  return ProductCodec(index, value).Decode(frame.sections, header.k, context, out);
}

Status DecodeSum(ByteSpan packets, int num_ranks, float scale, Span<const SumTarget> targets,
                 Executor* executor, Span<DecodeStats> stats) {
  if (num_ranks < 1) return InvalidArgument("num_ranks must be at least 1, got ", num_ranks);
  TFC_ASSIGN_OR_RETURN(const std::vector<Frame> frames, ReadPackets(packets, num_ranks, targets));

  std::vector<Status> statuses(targets.size());
  const auto sum_one = [&](size_t tensor, Executor* with) {
    const int64_t start = Now();
    statuses[tensor] =
        SumTensor(frames, num_ranks, tensor, targets.size(), scale, targets[tensor], with);
    if (stats.empty()) return;
    stats[tensor].nanoseconds = Now() - start;
    for (int rank = 0; rank < num_ranks; ++rank) {
      stats[tensor].num_bytes +=
          static_cast<int64_t>(frames[rank * targets.size() + tensor].bytes.size());
    }
  };
  // Tasks of an executor must not nest, so the small tensors go side by side and the large ones,
  // each on all threads, one after another.
  std::vector<size_t> small;
  for (size_t tensor = 0; tensor < targets.size(); ++tensor) {
    if (targets[tensor].n <= kSmallTensorElements) small.push_back(tensor);
  }
  executor->ParallelFor(static_cast<int64_t>(small.size()),
                        [&](int64_t i) { sum_one(small[i], SerialExecutor()); });
  for (size_t tensor = 0; tensor < targets.size(); ++tensor) {
    if (targets[tensor].n > kSmallTensorElements) sum_one(tensor, executor);
  }
  for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
  return OkStatus();
}

}  // namespace tfcompress
