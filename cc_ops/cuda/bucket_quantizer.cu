#include <algorithm>

#include "core/bit_io.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/quantile_sketch.h"
#include "cuda/binary_search.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/ordered_sums.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kMaxSample = QuantileSketch::kMaxSample;
constexpr uint32_t kNoKey = 0xFFFFFFFFu;  // Greater than keys of finite numbers and than all codes.

// ---- Splits ------------------------------------------------------------------------------------

__global__ void SampleKeysKernel(SelectedValues values, const uint32_t* count, uint64_t capacity,
                                 uint32_t* keys) {
  const uint64_t num_values = *count;
  for (uint64_t i = ThisThread(); i < capacity; i += NumThreads()) {
    const uint64_t position =
        num_values > kMaxSample ? QuantileSketch::SamplePosition(i, num_values) : i;
    keys[i] = position < num_values ? OrderedKey(values.At(position)) : kNoKey;
  }
}

// The sample of some values, sorted, and whether the values have both signs.
class Sample {
 public:
  __device__ Sample(const uint32_t* keys, const uint32_t* count, const QuantizerState* state)
      : keys_(keys),
        size_(*count < kMaxSample ? *count : kMaxSample),
        has_both_signs_(state->extremes.num_negative > 0 && state->extremes.num_negative < *count) {
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

__global__ void CountStepsKernel(const uint32_t* keys, const uint32_t* count,
                                 QuantizerState* state) {
  const Sample sample(keys, count, state);
  uint32_t num_steps = 0;
  for (uint64_t i = ThisThread(); i < sample.size(); i += NumThreads())
    num_steps += i > 0 && sample.BeginsRun(i);
  num_steps = SumOfLanes(num_steps);
  if (ThisLane() == 0) atomicAdd(&state->num_steps, num_steps);
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
    uint32_t num_marked = num_begun > 0 && begin > 0 ? Mark(begin) : 0;
    bool is_taken = num_begun > 1 || (num_begun == 1 && begin == 0);
    while (is_taken && end < sample_.size()) {
      num_marked += Mark(end);
      begin = end;
      end = sample_.EndOfRun(begin);
      is_taken = NumBegun(begin, end) == 1;
    }
    return num_marked;
  }

  __device__ uint32_t Mark(uint64_t i) const {
    const uint32_t bit = 1u << (i % 32);
    return (atomicOr(&words_[i / 32], bit) & bit) == 0;
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
__global__ void MarkSplitsKernel(const uint32_t* keys, const uint32_t* count, uint32_t max_buckets,
                                 bool counts, QuantizerState* state, uint32_t* words) {
  const Sample sample(keys, count, state);
  const bool is_full = !counts && sample.has_both_signs() && state->num_splits == max_buckets;
  const uint32_t num_parts = max_buckets - is_full;
  const SplitMarker marker(sample, num_parts, words);
  const bool takes_all = state->num_steps < num_parts;
  uint32_t num_marked = 0;
  for (uint64_t i = ThisThread(); i <= sample.size(); i += NumThreads()) {
    if (sample.SplitsAtZero(i)) num_marked += marker.Mark(i);
    if (i == sample.size() || !sample.BeginsRun(i)) continue;
    if (!takes_all) {
      num_marked += marker.MarkFrom(i);
    } else if (i > 0) {
      num_marked += marker.Mark(i);
    }
  }
  num_marked = SumOfLanes(num_marked);
  if (counts && ThisLane() == 0) atomicAdd(&state->num_splits, num_marked);
}

__global__ void ReadSplitsKernel(const uint32_t* keys, const uint32_t* count,
                                 const uint64_t* num_splits, const uint32_t* split_at,
                                 QuantizerState* state, uint32_t* splits) {
  const Sample sample(keys, count, state);
  for (uint64_t i = ThisThread(); i < *num_splits; i += NumThreads())
    splits[i] = sample.SplitAt(split_at[i]);
  if (ThisThread() == 0)
    state->num_buckets = *count == 0 ? 0 : static_cast<uint32_t>(*num_splits) + 1;
}

// ---- Codes and means ---------------------------------------------------------------------------

__global__ void FindCodesKernel(SelectedValues values, const uint32_t* count, uint64_t max_count,
                                const uint64_t* num_splits, const uint32_t* splits, uint32_t* codes,
                                uint32_t* positions) {
  const uint64_t num_values = *count;
  for (uint64_t i = ThisThread(); i < max_count; i += NumThreads()) {
    uint32_t code = kNoKey;
    if (i < num_values) {
      const uint32_t key = OrderedKey(values.At(i));
      code = static_cast<uint32_t>(
          FirstAfter(0, *num_splits, [&](uint64_t split) { return splits[split] > key; }));
    }
    codes[i] = code;
    positions[i] = static_cast<uint32_t>(i);
  }
}

// Values sorted by code, then by position.
struct SortedCodes {
  const uint32_t* codes;
  const uint32_t* positions;
  uint64_t size;

  // Returns the first entry with this code at or after this position.
  __device__ uint64_t Find(uint32_t code, uint64_t position) const {
    return FirstAfter(0, size, [&](uint64_t i) {
      return codes[i] > code || (codes[i] == code && positions[i] >= position);
    });
  }
};

// One warp per cell.
__global__ void SumCellsKernel(SelectedValues values, const uint32_t* count, const uint32_t* codes,
                               const uint32_t* positions, const QuantizerState* state,
                               BucketCell* cells) {
  const SortedCodes sorted = {codes, positions, *count};
  const uint64_t num_buckets = state->num_buckets;
  const uint64_t block_elements = BucketBlockElements(num_buckets);
  const uint64_t num_cells =
      sorted.size == 0 ? 0 : CeilDiv(sorted.size, block_elements) * num_buckets;
  for (uint64_t cell = ThisWarp(); cell < num_cells; cell += NumWarps()) {
    const uint64_t block = cell / num_buckets;
    const auto bucket = static_cast<uint32_t>(cell % num_buckets);
    const uint64_t begin = sorted.Find(bucket, block * block_elements);
    const uint64_t end = sorted.Find(bucket, (block + 1) * block_elements);
    const double sum =
        SumInOrder(begin, end, [&](uint64_t i) { return double{values.At(sorted.positions[i])}; });
    if (ThisLane() == 0) cells[cell] = {sum, end - begin};
  }
}

// One thread per bucket.
__global__ void MergeMeansKernel(const uint32_t* count, const BucketCell* cells,
                                 const QuantizerState* state, float* means) {
  const uint64_t num_buckets = state->num_buckets;
  for (uint64_t bucket = ThisThread(); bucket < num_buckets; bucket += NumThreads()) {
    const uint64_t num_cells = CeilDiv(*count, BucketBlockElements(num_buckets)) * num_buckets;
    double sum = 0;
    uint64_t num_values = 0;
    for (uint64_t cell = bucket; cell < num_cells; cell += num_buckets) {
      sum += cells[cell].sum;
      num_values += cells[cell].count;
    }
    means[bucket] = BucketMean(sum, num_values);
  }
}

// Every block except the last has 64 values per bucket.
uint64_t MaxCells(const QuantizerBuffers& buffers) {
  return uint64_t{buffers.max_count} / 64 + buffers.max_used_buckets();
}

Status MarkSplits(const uint32_t* count_dev, bool counts, const QuantizerBuffers& buffers,
                  cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(ClearMarks(buffers.splits, stream));
  return LaunchThreads("mark splits", MarkSplitsKernel, buffers.sample.num_items + 1, stream,
                       buffers.sample.sorted_keys_dev, count_dev, buffers.max_buckets, counts,
                       buffers.state_dev, buffers.splits.words_dev);
}

Status ChooseSplits(const SelectedValues& values, const uint32_t* count_dev,
                    const QuantizerBuffers& buffers, cudaStream_t stream) {
  const SortBuffers& sample = buffers.sample;
  TFC_RETURN_IF_ERROR(
      FindExtremes(values, buffers.max_count, count_dev, &buffers.state_dev->extremes, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("sample keys", SampleKeysKernel, sample.num_items, stream,
                                    values, count_dev, sample.num_items, sample.keys_dev));
  TFC_RETURN_IF_ERROR(Sort(sample, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("count steps", CountStepsKernel, sample.num_items, stream,
                                    sample.sorted_keys_dev, count_dev, buffers.state_dev));
  for (const bool counts : {true, false})
    TFC_RETURN_IF_ERROR(MarkSplits(count_dev, counts, buffers, stream));
  TFC_RETURN_IF_ERROR(CountMarks(buffers.splits, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(buffers.splits, stream));
  TFC_RETURN_IF_ERROR(
      ListMarks(buffers.splits, buffers.max_used_buckets(), buffers.split_at_dev, stream));
  return LaunchThreads("read splits", ReadSplitsKernel, buffers.max_used_buckets(), stream,
                       sample.sorted_keys_dev, count_dev, buffers.splits.num_marked_dev(),
                       buffers.split_at_dev, buffers.state_dev, buffers.splits_dev);
}

}  // namespace

Status TakeQuantizerBuffers(uint32_t max_count, uint32_t max_buckets, int num_sort_bits,
                            Workspace* workspace, QuantizerBuffers* buffers) {
  buffers->max_count = max_count;
  buffers->max_buckets = max_buckets;
  buffers->state_dev = workspace->Take<QuantizerState>(1);
  const uint32_t max_sample = std::min(max_count, kMaxSample);
  TFC_RETURN_IF_ERROR(TakeSortBuffers(max_sample, 32, false, workspace, &buffers->sample));
  TakeMarks(max_sample + 1, workspace, &buffers->splits);
  const uint32_t max_used = buffers->max_used_buckets();
  buffers->split_at_dev = workspace->Take<uint32_t>(max_used);
  buffers->splits_dev = workspace->Take<uint32_t>(max_used);
  const int num_code_bits = BitsFor(max_buckets);
  TFC_RETURN_IF_ERROR(TakeSortBuffers(max_count, std::max(num_code_bits, num_sort_bits), true,
                                      workspace, &buffers->codes));
  buffers->codes.num_bits = num_code_bits;
  buffers->cells_dev = workspace->Take<BucketCell>(MaxCells(*buffers));
  buffers->means_dev = workspace->Take<float>(max_used);
  return OkStatus();
}

Status QuantizeToBuckets(const SelectedValues& values, const uint32_t* count_dev,
                         const QuantizerBuffers& buffers, cudaStream_t stream) {
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.state_dev, 0, sizeof(*buffers.state_dev), stream));
  TFC_RETURN_IF_ERROR(ChooseSplits(values, count_dev, buffers, stream));
  const SortBuffers& codes = buffers.codes;
  TFC_RETURN_IF_ERROR(LaunchThreads("find codes", FindCodesKernel, buffers.max_count, stream,
                                    values, count_dev, uint64_t{buffers.max_count},
                                    buffers.splits.num_marked_dev(), buffers.splits_dev,
                                    codes.keys_dev, codes.payloads_dev));
  TFC_RETURN_IF_ERROR(Sort(codes, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("sum cells", SumCellsKernel, MaxCells(buffers), stream, values,
                                  count_dev, codes.sorted_keys_dev, codes.sorted_payloads_dev,
                                  buffers.state_dev, buffers.cells_dev));
  return LaunchThreads("merge means", MergeMeansKernel, buffers.max_used_buckets(), stream,
                       count_dev, buffers.cells_dev, buffers.state_dev, buffers.means_dev);
}

}  // namespace device
}  // namespace tfcompress
