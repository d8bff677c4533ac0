#include <algorithm>

#include "core/bit_io.h"
#include "core/sketch/bucket_quantizer.h"
#include "cuda/binary_search.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/bucket_splits.h"
#include "cuda/launch_frames.h"
#include "cuda/ordered_sums.h"
#include "cuda/part_begins.h"
#include "cuda/write_parts.h"

namespace tfcompress {
namespace device {
namespace {

struct CountOf {
  __device__ uint32_t operator()(const QuantizerPart& part) const { return *part.count_dev; }
};

__global__ void FindCodesKernel(const QuantizerPart* parts, const uint64_t* begins,
                                uint32_t* codes) {
  const QuantizerPart& part = parts[blockIdx.y];
  const SelectedValues values = part.values;
  const uint64_t num_values = *part.count_dev;
  const uint64_t num_splits = part.splits.NumMarked();
  const uint32_t* const splits = part.splits_dev;
  const uint32_t first_code = part.first_code;
  uint32_t* const own_codes = codes + begins[blockIdx.y];
  for (uint64_t i = ThisThread(); i < num_values; i += NumThreads()) {
    const uint32_t key = OrderedKey(values.At(i));
    own_codes[i] =
        first_code + static_cast<uint32_t>(FirstAfter(
                         0, num_splits, [&](uint64_t split) { return splits[split] > key; }));
  }
}

// The values of a part sorted by code, then by position: since codes grow from part to part, they
// are where the part is.
class SortedCodes {
 public:
  __device__ SortedCodes(const QuantizerPart& part, const SortBuffers& sort, uint64_t begin)
      : codes_(sort.sorted_keys_dev + begin),
        positions_(sort.sorted_positions_dev + begin),
        begin_(begin),
        size_(*part.count_dev),
        first_code_(part.first_code) {}

  __device__ uint64_t size() const { return size_; }
  // Position of a value in its part.
  __device__ uint64_t PositionOf(uint64_t i) const { return positions_[i] - begin_; }
  // Returns the first entry of this bucket at or after this position.
  __device__ uint64_t Find(uint32_t bucket, uint64_t position) const {
    const uint32_t code = first_code_ + bucket;
    return FirstAfter(0, size_, [&](uint64_t i) {
      return codes_[i] > code || (codes_[i] == code && PositionOf(i) >= position);
    });
  }

 private:
  const uint32_t* codes_;
  const uint32_t* positions_;
  uint64_t begin_;
  uint64_t size_;
  uint32_t first_code_;
};

// One warp per cell.
__global__ void SumCellsKernel(const QuantizerPart* parts, const uint64_t* begins,
                               SortBuffers sort) {
  const QuantizerPart& part = parts[blockIdx.y];
  const SelectedValues values = part.values;
  const SortedCodes sorted(part, sort, begins[blockIdx.y]);
  BucketCell* const cells = part.cells_dev;
  const uint64_t num_buckets = part.state_dev->num_buckets;
  const uint64_t block_elements = BucketBlockElements(num_buckets);
  const uint64_t num_cells =
      sorted.size() == 0 ? 0 : CeilDiv(sorted.size(), block_elements) * num_buckets;
  for (uint64_t cell = ThisWarp(); cell < num_cells; cell += NumWarps()) {
    const uint64_t block = cell / num_buckets;
    const auto bucket = static_cast<uint32_t>(cell % num_buckets);
    const uint64_t begin = sorted.Find(bucket, block * block_elements);
    const uint64_t end = sorted.Find(bucket, (block + 1) * block_elements);
    const double sum =
        SumInOrder(begin, end, [&](uint64_t i) { return double{values.At(sorted.PositionOf(i))}; });
    if (ThisLane() == 0) cells[cell] = {sum, end - begin};
  }
}

// One thread per bucket.
__global__ void MergeMeansKernel(const QuantizerPart* parts) {
  const QuantizerPart& part = parts[blockIdx.y];
  const BucketCell* const cells = part.cells_dev;
  const uint64_t count = *part.count_dev;
  const uint64_t num_buckets = part.state_dev->num_buckets;
  for (uint64_t bucket = ThisThread(); bucket < num_buckets; bucket += NumThreads()) {
    const uint64_t num_cells = CeilDiv(count, BucketBlockElements(num_buckets)) * num_buckets;
    double sum = 0;
    uint64_t num_values = 0;
    for (uint64_t cell = bucket; cell < num_cells; cell += num_buckets) {
      sum += cells[cell].sum;
      num_values += cells[cell].count;
    }
    part.means_dev[bucket] = BucketMean(sum, num_values);
  }
}

Status FindCodes(const Parts<QuantizerPart>& parts, const QuantizerBuffers& buffers,
                 cudaStream_t stream) {
  const auto max_count = [](const QuantizerPart& part) { return part.max_count; };
  TFC_RETURN_IF_ERROR(FindBegins(parts, CountOf(), buffers.begins_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchFrames("find codes", FindCodesKernel, parts, max_count, stream,
                                   buffers.begins_dev, buffers.codes_dev()));
  return Sort(buffers.codes, buffers.sort, nullptr, buffers.begins_dev + parts.size(), stream);
}

Status FindMeans(const Parts<QuantizerPart>& parts, const QuantizerBuffers& buffers,
                 cudaStream_t stream) {
  const auto lanes = [](const QuantizerPart& part) { return part.max_cells() * kWarpThreads; };
  const auto max_buckets = [](const QuantizerPart& part) { return part.max_used_buckets(); };
  TFC_RETURN_IF_ERROR(LaunchFrames("sum cells", SumCellsKernel, parts, lanes, stream,
                                   buffers.begins_dev, buffers.sort));
  return LaunchFrames("merge means", MergeMeansKernel, parts, max_buckets, stream);
}

struct BeginPart {
  __device__ void operator()(const QuantizerPart& part) const { *part.state_dev = {}; }
};

}  // namespace

Status TakeQuantizerBuffers(Span<const QuantizerSize> sizes, uint64_t max_items, int num_sort_bits,
                            Workspace* workspace, QuantizerBuffers* buffers) {
  const size_t num_parts = sizes.size();
  uint64_t num_codes = 0, num_cells = 0, num_tiles = 0, num_sampled = 0;
  buffers->parts.assign(num_parts, {});
  for (size_t i = 0; i < num_parts; ++i) {
    QuantizerPart& part = buffers->parts[i];
    part.max_count = sizes[i].max_count;
    part.max_buckets = sizes[i].max_buckets;
    part.first_code = static_cast<uint32_t>(num_codes);
    part.splits.n = uint64_t{part.max_sample()} + 1;
    num_codes += part.max_used_buckets();
    num_cells += part.max_cells();
    num_tiles += part.splits.num_tiles();
    num_sampled += part.max_sample();
  }
  buffers->parts_dev = workspace->Take<QuantizerPart>(num_parts);
  buffers->begins_dev = workspace->Take<uint64_t>(num_parts + 1);
  buffers->sample_begins_dev = workspace->Take<uint64_t>(num_parts + 1);
  buffers->sample = {std::min(num_sampled, max_items), 32, static_cast<uint32_t>(num_parts)};
  buffers->codes = {max_items, std::max(BitsFor(num_codes), 1)};
  const SortSize sorts[] = {buffers->sample, buffers->codes, {max_items, num_sort_bits}};
  TFC_RETURN_IF_ERROR(TakeSortBuffers({sorts, 3}, workspace, &buffers->sort));
  TakeMarks(num_tiles * kTileElements, workspace, &buffers->splits);
  auto* states_dev = workspace->Take<QuantizerState>(num_parts);
  auto* splits_dev = workspace->Take<uint32_t>(num_codes);
  auto* means_dev = workspace->Take<float>(num_codes);
  auto* cells_dev = workspace->Take<BucketCell>(num_cells);
  num_tiles = 0;
  for (QuantizerPart& part : buffers->parts) {
    part.splits = buffers->splits.Slice(num_tiles, part.splits.n);
    part.splits_dev = splits_dev + part.first_code;
    part.means_dev = means_dev + part.first_code;
    part.cells_dev = cells_dev;
    part.state_dev = states_dev++;
    cells_dev += part.max_cells();
    num_tiles += part.splits.num_tiles();
  }
  return OkStatus();
}

Status QuantizeToBuckets(Span<const QuantizerPart> parts, const QuantizerBuffers& buffers,
                         cudaStream_t stream) {
  const Parts<QuantizerPart> table = {parts, buffers.parts_dev};
  TFC_RETURN_IF_ERROR(
      WriteParts("begin quantizing", parts, BeginPart(), buffers.parts_dev, stream));
  TFC_RETURN_IF_ERROR(ChooseSplits(table, buffers, stream));
  TFC_RETURN_IF_ERROR(FindCodes(table, buffers, stream));
  return FindMeans(table, buffers, stream);
}

}  // namespace device
}  // namespace tfcompress
