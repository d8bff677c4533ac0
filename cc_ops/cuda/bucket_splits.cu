#include "core/sketch/quantile_sketch.h"
#include "cuda/binary_search.h"
#include "cuda/bucket_splits.h"
#include "cuda/for_each_marked.h"
#include "cuda/launch_frames.h"
#include "cuda/part_begins.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kMaxSample = QuantileSketch::kMaxSample;

struct SampledCount {
  __device__ uint32_t operator()(const QuantizerPart& part) const {
    return *part.count_dev < kMaxSample ? *part.count_dev : kMaxSample;
  }
};

__global__ void SampleKeysKernel(const QuantizerPart* parts, const uint64_t* begins,
                                 uint32_t* keys) {
  const QuantizerPart& part = parts[blockIdx.y];
  const SelectedValues values = part.values;
  const uint64_t num_values = *part.count_dev;
  const uint64_t size = SampledCount()(part);
  uint32_t* const own_keys = keys + begins[blockIdx.y];
  for (uint64_t i = ThisThread(); i < size; i += NumThreads()) {
    const uint64_t position =
        num_values > kMaxSample ? QuantileSketch::SamplePosition(i, num_values) : i;
    own_keys[i] = OrderedKey(values.At(position));
  }
}

// The samples of all parts, sorted.
struct Samples {
  const QuantizerPart* parts;
  const uint64_t* begins;
  const uint32_t* keys;

  __device__ const QuantizerPart& Part() const { return parts[blockIdx.y]; }
};

// The sample of the part of the block, and whether the part has values of both signs.
class Sample {
 public:
  __device__ explicit Sample(const Samples& samples)
      : keys_(samples.keys + samples.begins[blockIdx.y]), size_(SampledCount()(samples.Part())) {
    const QuantizerPart& part = samples.Part();
    const uint32_t num_negative = part.num_negative_dev == nullptr ? 0 : *part.num_negative_dev;
    has_both_signs_ = num_negative > 0 && num_negative < *part.count_dev;
  }

  __device__ uint64_t size() const { return size_; }
  __device__ bool has_both_signs() const { return has_both_signs_; }
  __device__ bool BeginsRun(uint64_t i) const { return i == 0 || keys_[i] != keys_[i - 1]; }
  // Returns the end of the run of equal keys that begins at i.
  __device__ uint64_t EndOfRun(uint64_t i) const {
    const uint32_t key = keys_[i];
    return FirstAfter(i + 1, size_, [&](uint64_t other) { return keys_[other] > key; });
  }
  // Whether position i, the least key that is not negative, is replaced by a split at zero.
  __device__ bool SplitsAtZero(uint64_t i) const {
    return has_both_signs_ && (i == 0 || keys_[i - 1] < kZeroKey) &&
           (i == size_ || keys_[i] >= kZeroKey);
  }
  __device__ uint32_t SplitAt(uint64_t i) const { return SplitsAtZero(i) ? kZeroKey : keys_[i]; }

 private:
  const uint32_t* keys_;
  uint64_t size_;
  bool has_both_signs_;
};

__global__ void CountStepsKernel(Samples samples) {
  const Sample sample(samples);
  uint32_t num_steps = 0;
  for (uint64_t i = ThisThread(); i < sample.size(); i += NumThreads())
    num_steps += i > 0 && sample.BeginsRun(i);
  num_steps = SumOfLanes(num_steps);
  if (ThisLane() == 0 && num_steps > 0) atomicAdd(&samples.Part().state_dev->num_steps, num_steps);
}

// Marks in parallel the first position of each key that QuantileSketch::Splits takes. Parts begin
// at size * part / num_parts. A run of equal keys in which a part begins is a split. If the run is
// taken already, by another part or because it is the first run (which is never a split), the part
// takes the next run instead.
class SplitMarker {
 public:
  __device__ SplitMarker(const Sample& sample, uint64_t num_parts, uint32_t* words)
      : sample_(sample), num_parts_(num_parts), words_(words) {}

  // Marks the splits that the run at `begin` decides; returns how many were not marked before.
  // Continues over following runs with one part each, at most num_parts of them; no other thread
  // starts from those.
  __device__ uint32_t MarkFrom(uint64_t begin) const {
    uint64_t end = sample_.EndOfRun(begin);
    const uint64_t num_begun = NumBegun(begin, end);
    uint32_t num_marked =
        num_begun > 0 && begin > 0 && SetMark(static_cast<uint32_t>(begin), words_);
    bool is_taken = num_begun > 1 || (num_begun == 1 && begin == 0);
    while (is_taken && end < sample_.size()) {
      num_marked += SetMark(static_cast<uint32_t>(end), words_);
      begin = end;
      end = sample_.EndOfRun(begin);
      is_taken = NumBegun(begin, end) == 1;
    }
    return num_marked;
  }

 private:
  // Number of parts, except the first, that begin in [begin, end).
  __device__ uint64_t NumBegun(uint64_t begin, uint64_t end) const {
    return NumBegunBefore(end) - NumBegunBefore(begin);
  }
  __device__ uint64_t NumBegunBefore(uint64_t position) const {
    const uint64_t num_begun = CeilDiv(position * num_parts_, sample_.size());
    return num_begun > 1 ? num_begun - 1 : 0;
  }

  const Sample& sample_;
  uint64_t num_parts_;
  uint32_t* words_;
};

// One thread per position of the sample. Launched twice: the first launch counts the splits; if the
// split at zero makes one too many, the second launch marks the splits of one part fewer.
__global__ void MarkSplitsKernel(Samples samples, bool counts) {
  const Sample sample(samples);
  const QuantizerPart& part = samples.Part();
  QuantizerState* const state = part.state_dev;
  const bool is_full = !counts && sample.has_both_signs() && state->num_splits == part.max_buckets;
  const uint32_t num_parts = part.max_buckets - is_full;
  uint32_t* const words = part.splits.words_dev;
  const SplitMarker marker(sample, num_parts, words);
  const bool takes_all = state->num_steps < num_parts;
  uint32_t num_marked = 0;
  for (uint64_t i = ThisThread(); i <= sample.size(); i += NumThreads()) {
    if (sample.SplitsAtZero(i)) num_marked += SetMark(static_cast<uint32_t>(i), words);
    if (i == sample.size() || !sample.BeginsRun(i)) continue;
    if (!takes_all) {
      num_marked += marker.MarkFrom(i);
    } else if (i > 0) {
      num_marked += SetMark(static_cast<uint32_t>(i), words);
    }
  }
  num_marked = SumOfLanes(num_marked);
  if (counts && ThisLane() == 0 && num_marked > 0) atomicAdd(&state->num_splits, num_marked);
}

__global__ void ListSplitsKernel(Samples samples) {
  const Sample sample(samples);
  const QuantizerPart& part = samples.Part();
  uint32_t* const splits = part.splits_dev;
  ForEachMarked(
      part.splits, [&](uint32_t i) { return sample.SplitAt(i); },
      [&](uint64_t position, uint32_t, uint32_t split) { splits[position] = split; });
  if (ThisThread() != 0) return;
  part.state_dev->num_buckets =
      *part.count_dev == 0 ? 0 : static_cast<uint32_t>(part.splits.NumMarked()) + 1;
}

Status SortSamples(const Parts<QuantizerPart>& parts, const QuantizerBuffers& buffers,
                   cudaStream_t stream) {
  const auto max_sample = [](const QuantizerPart& part) { return part.max_sample(); };
  TFC_RETURN_IF_ERROR(FindBegins(parts, SampledCount(), buffers.sample_begins_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchFrames("sample keys", SampleKeysKernel, parts, max_sample, stream,
                                   buffers.sample_begins_dev, buffers.sort.keys_dev));
  return Sort(buffers.sample, buffers.sort, buffers.sample_begins_dev,
              buffers.sample_begins_dev + parts.size(), stream);
}

}  // namespace

Status ChooseSplits(const Parts<QuantizerPart>& parts, const QuantizerBuffers& buffers,
                    cudaStream_t stream) {
  const Marks& splits = buffers.splits;
  const Samples samples = {parts.data_dev, buffers.sample_begins_dev, buffers.sort.sorted_keys_dev};
  const auto launch = [&](const char* name, auto kernel, uint64_t (*count)(const QuantizerPart&),
                          auto... arguments) {
    return LaunchParts(name, kernel, CountFrameItems(parts, count), parts.size(), stream, samples,
                       arguments...);
  };
  TFC_RETURN_IF_ERROR(SortSamples(parts, buffers, stream));
  const auto positions = [](const QuantizerPart& part) { return part.splits.n; };
  const auto lanes = [](const QuantizerPart& part) {
    return part.splits.num_tiles() * kWarpThreads;
  };
  TFC_RETURN_IF_ERROR(launch("count steps", CountStepsKernel, positions));
  for (const bool counts : {true, false}) {
    TFC_RETURN_IF_ERROR(ClearMarks(splits, stream));
    TFC_RETURN_IF_ERROR(launch("mark splits", MarkSplitsKernel, positions, counts));
  }
  TFC_RETURN_IF_ERROR(CountMarks(splits, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(splits, stream));
  return launch("list splits", ListSplitsKernel, lanes);
}

}  // namespace device
}  // namespace tfcompress
