#include <algorithm>
#include <limits>
#include <numeric>

#include "core/float_mode.h"
#include "core/pipeline.h"
#include "core/simd.h"
#include "core/stopwatch.h"

namespace tfcompress {
namespace {

// Below this many decoded elements a tensor is summed by one thread, beside other small tensors;
// above it the threads share the tensor.
constexpr uint64_t kSmallTensorElements = kBlockElements;
// Decoded frames wait for each other until they have one in so many of the tensor's elements. These
// take 8 bytes each: half of what the tensor takes, and the last frame on top.
constexpr uint64_t kGroupShare = 4;

// sum[i] += scale * values[i]
void AddScaled(const float* values, float scale, int64_t count, float* sum) {
  Vectorized([=] {
    for (int64_t i = 0; i < count; ++i) sum[i] += scale * values[i];
  });
}

// The first of them, of a sum that is 0: sum[i] = 0 + scale * sum[i]
void ScaleFirst(float scale, int64_t count, float* sum) {
  Vectorized([=] {
    for (int64_t i = 0; i < count; ++i) sum[i] = 0.0f + scale * sum[i];
  });
}

// Adds scale * decoded of the elements of a block of the universe, [begin, end).
void AddBlock(const SparseTensor& decoded, float scale, int64_t begin, int64_t end, float* sum) {
  constexpr int64_t kPrefetchDistance = 32;  // Each element is in another line of memory.
  const float* values = decoded.values.data();
  if (decoded.everything) return AddScaled(values + begin, scale, end - begin, sum + begin);
  const uint32_t* indices = decoded.indices.data();
  const auto size = static_cast<int64_t>(decoded.indices.size());
  int64_t i = std::lower_bound(indices, indices + size, static_cast<uint32_t>(begin)) - indices;
  for (; i < size && indices[i] < end; ++i) {
    __builtin_prefetch(sum + indices[std::min(i + kPrefetchDistance, size - 1)], 1);
    sum[indices[i]] += scale * values[i];
  }
}

// Adds some ranks' decoded tensors to `sum` in their order, a block of the universe after the
// other: it stays in the cache for all of them, and no two threads meet at an element. The first
// time `sum` counts as 0: a block is cleared right before elements of it are added.
void AddFrames(Span<const SparseTensor> decoded, float scale, bool first, Executor* executor,
               Span<float> sum) {
  ForEachBlock(executor, sum.size(), [&](int64_t, int64_t begin, int64_t end) {
    if (first) std::fill(sum.begin() + begin, sum.begin() + end, 0.0f);
    for (const SparseTensor& each : decoded) AddBlock(each, scale, begin, end, sum.data());
  });
}

void Fill(float value, Executor* executor, Span<float> out) {
  ForEachBlock(executor, out.size(), [&](int64_t, int64_t begin, int64_t end) {
    std::fill(out.begin() + begin, out.begin() + end, value);
  });
}

// One tensor's frames among those of several, one rank's after the other's.
struct TensorFrames {
  Span<const PacketFrame> frames;
  size_t first;
  size_t stride;

  size_t size() const { return (frames.size() - first + stride - 1) / stride; }
  const PacketFrame& operator[](size_t i) const { return frames[i * stride + first]; }
};

// If chunks of every rank's frame decode apart, sums the tensor chunk by chunk over all ranks, and
// sets `done`.
Status SumInChunks(const TensorFrames& frames, float scale, const SumTarget& target,
                   Executor* executor, bool* done) {
  std::vector<ChunkDecoder> decoders(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    const Status status = OpenFrame(frames[i], &decoders[i]);
    if (!status.ok()) return status.WithContext(frames[i].name());
    if (!decoders[i]) return OkStatus();
  }
  *done = true;
  return ForEachDecodeChunk(target.n, executor, [&](int64_t begin, int64_t end) {
    float values[kDecodeChunk];
    float wide[kDecodeChunk];
    float* sum = target.dtype == DType::kFloat32 ? static_cast<float*>(target.data) + begin : wide;
    for (size_t i = 0; i < decoders.size(); ++i) {
      const Status status = decoders[i](begin, end, i == 0 ? sum : values);
      if (!status.ok()) return status.WithContext("value section").WithContext(frames[i].name());
      if (i == 0) {
        ScaleFirst(scale, end - begin, sum);
      } else {
        AddScaled(values, scale, end - begin, sum);
      }
    }
    if (sum != wide) return OkStatus();
    NarrowFromFloat({wide, static_cast<size_t>(end - begin)}, target.dtype, SerialExecutor(),
                    static_cast<unsigned char*>(target.data) + begin * DTypeBytes(target.dtype));
    return OkStatus();
  });
}

// Sums a tensor over the ranks in their order; there is one at least. Frames that have few elements
// are added together.
Status SumTensor(const TensorFrames& frames, float scale, const SumTarget& target,
                 Executor* executor, bool* finite) {
  *finite = true;
  bool done = false;
  TFC_RETURN_IF_ERROR(SumInChunks(frames, scale, target, executor, &done));
  if (done) return OkStatus();

  std::vector<float> wide(target.dtype == DType::kFloat32 ? 0 : target.n);
  const bool in_place = target.dtype == DType::kFloat32;
  const Span<float> sum(in_place ? static_cast<float*>(target.data) : wide.data(),
                        static_cast<size_t>(target.n));
  std::vector<SparseTensor> decoded;
  size_t num_decoded = 0, num_elements = 0;  // Of the frames that wait.
  bool first = true;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (num_decoded == decoded.size()) decoded.emplace_back();
    SparseTensor* own = &decoded[num_decoded++];
    const Status status = DecodeFrame(frames[i], executor, own);
    if (!status.ok()) return status.WithContext(frames[i].name());
    *finite &= !frames[i].header.nonfinite;
    num_elements += own->values.size();
    if (i + 1 < frames.size() && num_elements < target.n / kGroupShare) continue;
    AddFrames({decoded.data(), num_decoded}, scale, first, executor, sum);
    first = false;
    num_decoded = num_elements = 0;
    decoded.resize(1);  // Its memory serves the next frame; that of the others is given back.
  }
  if (!*finite) Fill(std::numeric_limits<float>::quiet_NaN(), executor, sum);
  if (!in_place) NarrowFromFloat(sum, target.dtype, executor, target.data);
  return OkStatus();
}

// Sums tensors, tensor i into targets[i], and measures them.
Status SumTensors(Span<const TensorFrames> tensors, float scale, Span<const SumTarget> targets,
                  Executor* executor, Span<DecodeStats> stats) {
  std::vector<Status> statuses(targets.size());
  const auto sum_one = [&](size_t tensor, Executor* with) {
    const Stopwatch stopwatch;
    const TensorFrames& own = tensors[tensor];
    bool finite = true;
    statuses[tensor] = SumTensor(own, scale, targets[tensor], with, &finite);
    if (stats.empty()) return;
    stats[tensor].finite = finite;
    stats[tensor].nanoseconds = stopwatch.nanoseconds();
    for (size_t i = 0; i < own.size(); ++i) {
      stats[tensor].num_bytes += static_cast<int64_t>(own[i].bytes.size());
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

}  // namespace

Status DecodeSum(const PacketsView& packets, Span<const int64_t> positions, float scale,
                 Span<const SumTarget> targets, Executor* executor, Span<DecodeStats> stats) {
  const FloatModeScope mode;
  if (positions.size() != targets.size()) {
    return InvalidArgument(positions.size(), " positions for ", targets.size(), " tensors");
  }
  TFC_ASSIGN_OR_RETURN(const std::vector<PacketFrame> frames,
                       ReadPackets(packets, positions, [&](size_t i, const FrameHeader& header) {
                         return CheckTensor(header, targets[i].n, targets[i].dtype);
                       }));
  std::vector<TensorFrames> tensors;
  for (size_t i = 0; i < targets.size(); ++i) tensors.push_back({frames, i, targets.size()});
  return SumTensors(tensors, scale, targets, executor, stats);
}

Status DecodeSum(ByteSpan packets, int num_ranks, float scale, Span<const SumTarget> targets,
                 Executor* executor, Span<DecodeStats> stats) {
  std::vector<int64_t> positions(targets.size());
  std::iota(positions.begin(), positions.end(), 0);
  const auto num_frames = static_cast<int64_t>(targets.size());
  return DecodeSum({packets, num_ranks, num_frames}, positions, scale, targets, executor, stats);
}

Status DecodePieces(ByteSpan packets, float scale, Span<const CutTensor> tensors,
                    Executor* executor, Span<DecodeStats> stats) {
  const FloatModeScope mode;
  std::vector<Span<const int64_t>> cuts;
  for (const CutTensor& tensor : tensors) cuts.push_back(tensor.cuts);
  TFC_ASSIGN_OR_RETURN(const std::vector<PacketFrame> frames, ReadPieces(packets, cuts));
  std::vector<SumTarget> pieces;
  for (const PacketFrame& frame : frames) {
    const CutTensor& tensor = tensors[frame.position];
    pieces.push_back({tensor.sums + tensor.cuts[frame.rank], DType::kFloat32, frame.header.n});
  }

  std::vector<TensorFrames> of_pieces;
  for (size_t i = 0; i < pieces.size(); ++i) of_pieces.push_back({frames, i, pieces.size()});
  std::vector<DecodeStats> of_frames(pieces.size());
  TFC_RETURN_IF_ERROR(SumTensors(of_pieces, scale, pieces, executor, Span<DecodeStats>(of_frames)));
  for (size_t i = 0; i < pieces.size(); ++i) {
    DecodeStats& of_tensor = stats[frames[i].position];
    of_tensor.num_bytes += of_frames[i].num_bytes;
    of_tensor.nanoseconds += of_frames[i].nanoseconds;
    of_tensor.finite &= of_frames[i].finite;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Span<float> all(tensors[i].sums, static_cast<size_t>(tensors[i].num_elements()));
    if (!stats[i].finite) Fill(std::numeric_limits<float>::quiet_NaN(), executor, all);
  }
  return OkStatus();
}

}  // namespace tfcompress
