#include <vector>

#include "core/bit_io.h"
#include "core/float_order.h"
#include "cuda/group_lists.h"
#include "cuda/launch_frames.h"
#include "cuda/scan.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Signs -------------------------------------------------------------------------------------

// The elements of frames, of each from its place on.
struct SignSplit {
  const EncodedFrame* frames;
  const SketchPlace* places;
  uint64_t* negatives;
  float* magnitudes[kNumSigns];
  uint32_t* keys;
  uint32_t* counts;

  __device__ uint64_t* Negatives() const { return negatives + places[blockIdx.y].first_tile; }
};

__global__ void CountNegativesKernel(SignSplit split) {
  const EncodedFrame& frame = split.frames[blockIdx.y];
  const SelectedValues values = frame.Support();
  const uint64_t k = frame.state_dev->k;
  const uint64_t num_tiles = NumTiles(frame.max_k);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      if (i < k) own += IsNegative(values.At(i));
    }
    own = SumOfLanes(own);
    if (ThisLane() == 0) split.Negatives()[tile] = own;
  }
}

// One warp per tile; it goes row by row.
__global__ void SplitSignsKernel(SignSplit split) {
  const EncodedFrame& frame = split.frames[blockIdx.y];
  const SelectedValues values = frame.Support();
  const uint64_t k = frame.state_dev->k;
  const uint64_t num_tiles = NumTiles(frame.max_k);
  const uint64_t* const negatives = split.Negatives();
  const uint64_t num_nonnegative = k - (negatives[num_tiles] - negatives[0]);
  if (ThisThread() == 0) {
    split.counts[kNumSigns * blockIdx.y] = static_cast<uint32_t>(num_nonnegative);
    split.counts[kNumSigns * blockIdx.y + 1] = static_cast<uint32_t>(k - num_nonnegative);
  }
  const uint32_t first_key = split.places[blockIdx.y].first_key;
  float* const nonnegative_magnitudes = split.magnitudes[0] + first_key;
  float* const negative_magnitudes = split.magnitudes[1] + first_key;
  uint32_t* const keys = split.keys + first_key;
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t num_negative = negatives[tile] - negatives[0];
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      const float value = i < k ? values.At(i) : 0.0f;
      const uint32_t lanes = __ballot_sync(kAllLanes, IsNegative(value));
      const uint64_t negative = num_negative + static_cast<uint64_t>(__popc(lanes & LanesBefore()));
      num_negative += static_cast<uint64_t>(__popc(lanes));
      if (i >= k) continue;
      const bool is_negative = IsNegative(value);
      const uint64_t place = is_negative ? negative : i - negative;
      float* const magnitudes = is_negative ? negative_magnitudes : nonnegative_magnitudes;
      magnitudes[place] = FloatFromBits(FloatBits(value) & kFloatMagnitudeBits);
      keys[is_negative ? num_nonnegative + place : place] = values.IndexOf(i);
    }
  }
}

// Threads of the tiles of a frame's support, a warp for each.
uint64_t SupportThreadsOf(const EncodedFrame& frame) {
  return NumTiles(frame.max_k) * kWarpThreads;
}

Status SplitSigns(const Parts<EncodedFrame>& frames, const SketchPlace* places_dev,
                  const GroupListsBuffers& buffers, cudaStream_t stream) {
  const SignSplit split = {
      frames.data_dev,        places_dev,
      buffers.negatives_dev,  {buffers.magnitudes_dev[0], buffers.magnitudes_dev[1]},
      buffers.split_keys_dev, buffers.counts_dev};
  const PartItems items = CountFrameItems(frames, SupportThreadsOf);
  TFC_RETURN_IF_ERROR(
      LaunchParts("count negatives", CountNegativesKernel, items, frames.size(), stream, split));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.negatives_dev, buffers.num_tiles, stream));
  return LaunchParts("split signs", SplitSignsKernel, items, frames.size(), stream, split);
}

// ---- Groups ------------------------------------------------------------------------------------

// Replaces the codes of a sign by lists.
__global__ void AssignListsKernel(const QuantizerPart* signs, const uint64_t* begins,
                                  uint32_t max_groups, uint32_t* codes, uint32_t* offsets) {
  const QuantizerPart& sign = signs[blockIdx.y];
  const BucketGroups groups(sign.state_dev->num_buckets, max_groups);
  const uint64_t end = begins[blockIdx.y + 1];
  for (uint64_t i = begins[blockIdx.y] + ThisThread(); i < end; i += NumThreads()) {
    const uint32_t bucket = codes[i] - sign.first_code;
    codes[i] = blockIdx.y * max_groups + bucket / groups.width;
    offsets[i] = bucket % groups.width;
  }
}

// Quantizes the magnitudes, and sorts their places by their lists.
Status SortByLists(Span<const SketchPlace> places, const GroupListsBuffers& buffers,
                   cudaStream_t stream) {
  const QuantizerBuffers& quantizer = buffers.quantizer;
  std::vector<QuantizerPart> signs = quantizer.parts;
  for (size_t i = 0; i < signs.size(); ++i) {
    const float* const magnitudes_dev =
        buffers.magnitudes_dev[i % kNumSigns] + places[i / kNumSigns].first_key;
    signs[i].values = {{magnitudes_dev, DType::kFloat32, signs[i].max_count}, nullptr};
    signs[i].count_dev = buffers.counts_dev + i;
  }
  TFC_RETURN_IF_ERROR(QuantizeToBuckets(signs, quantizer, stream));
  const auto max_count = [](const QuantizerPart& sign) { return sign.max_count; };
  TFC_RETURN_IF_ERROR(LaunchFrames("assign lists", AssignListsKernel, quantizer.quantized(),
                                   max_count, stream, quantizer.begins_dev, buffers.config.groups,
                                   quantizer.codes_dev(), buffers.split_offsets_dev));
  return Sort(buffers.lists, quantizer.sort, nullptr, quantizer.begins_dev + signs.size(), stream);
}

__global__ void FindListsKernel(const uint32_t* sorted_lists, const uint64_t* num_keys,
                                KeyLists lists) {
  const auto begin_of = [&](uint64_t list) {
    return static_cast<uint32_t>(
        FirstAfter(0, *num_keys, [&](uint64_t i) { return sorted_lists[i] >= list; }));
  };
  for (uint64_t i = ThisThread(); i < lists.num_lists; i += NumThreads()) {
    const uint32_t begin = begin_of(i);
    lists.Set(static_cast<uint32_t>(i), begin, begin_of(i + 1) - begin);
  }
}

// Elements before the sort by lists: those of each sign from its begin on, but for keys, which are
// at the places of the frames.
struct SplitElements {
  const uint64_t* begins;
  const SketchPlace* places;
  const uint32_t* keys;
  const uint32_t* offsets;
};

__global__ void GatherListsKernel(SplitElements split, const uint32_t* sorted_lists,
                                  const uint32_t* positions, const uint64_t* num_keys,
                                  uint32_t lists_per_frame, uint32_t* keys, uint32_t* offsets) {
  for (uint64_t i = ThisThread(); i < *num_keys; i += NumThreads()) {
    const uint32_t frame = sorted_lists[i] / lists_per_frame;
    const uint64_t number = positions[i] - split.begins[kNumSigns * frame];
    keys[i] = split.keys[split.places[frame].first_key + number];
    offsets[i] = split.offsets[positions[i]];
  }
}

}  // namespace

Status TakeGroupLists(const GroupedSketchConfig& config, Span<const uint32_t> max_sizes,
                      Workspace* workspace, GroupListsBuffers* buffers) {
  uint64_t max_keys = 0;
  std::vector<QuantizerSize> signs;
  buffers->config = config;
  buffers->num_tiles = 0;
  for (const uint32_t max_k : max_sizes) {
    max_keys += max_k;
    buffers->num_tiles += NumTiles(max_k);
    signs.insert(signs.end(), kNumSigns, {max_k, config.buckets});
  }
  if (signs.size() > kMaxParts) {
    return InvalidArgument("at most ", kMaxParts / kNumSigns,
                           " tensors are encoded together with a joint codec, got ",
                           max_sizes.size());
  }
  const auto num_lists = static_cast<uint32_t>(max_sizes.size() * buffers->lists_per_frame());
  buffers->lists = {max_keys, BitsFor(num_lists)};
  TFC_RETURN_IF_ERROR(TakeQuantizerBuffers(signs, max_keys, buffers->lists.num_bits, workspace,
                                           &buffers->quantizer));
  buffers->max_keys = static_cast<uint32_t>(max_keys);
  buffers->negatives_dev = workspace->Take<uint64_t>(buffers->num_tiles + 1);
  buffers->counts_dev = workspace->Take<uint32_t>(signs.size());
  for (float*& magnitudes_dev : buffers->magnitudes_dev)
    magnitudes_dev = workspace->Take<float>(max_keys);
  buffers->split_keys_dev = workspace->Take<uint32_t>(max_keys);
  buffers->split_offsets_dev = workspace->Take<uint32_t>(max_keys);
  buffers->keys_dev = buffers->quantizer.sort.keys_dev;
  buffers->offsets_dev = buffers->quantizer.sort.spare_dev;
  buffers->key_lists = TakeKeyLists(num_lists, buffers->max_keys, workspace);
  return OkStatus();
}

Status MakeGroupLists(const Parts<EncodedFrame>& frames, const Parts<SketchPlace>& places,
                      const GroupListsBuffers& buffers, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(SplitSigns(frames, places.data_dev, buffers, stream));
  TFC_RETURN_IF_ERROR(SortByLists(places.on_host, buffers, stream));
  const KeyLists& lists = buffers.key_lists;
  const SortBuffers& sort = buffers.quantizer.sort;
  const uint64_t* const begins_dev = buffers.quantizer.begins_dev;
  const uint64_t* const num_keys_dev = begins_dev + kNumSigns * frames.size();
  TFC_RETURN_IF_ERROR(LaunchThreads("find lists", FindListsKernel, lists.num_lists, stream,
                                    sort.sorted_keys_dev, num_keys_dev, lists));
  TFC_RETURN_IF_ERROR(ScanCounts(lists.first_tiles_dev, lists.num_lists, stream));
  const SplitElements split = {begins_dev, places.data_dev, buffers.split_keys_dev,
                               buffers.split_offsets_dev};
  return LaunchThreads("gather lists", GatherListsKernel, buffers.max_keys, stream, split,
                       sort.sorted_keys_dev, sort.sorted_positions_dev, num_keys_dev,
                       buffers.lists_per_frame(), buffers.keys_dev, buffers.offsets_dev);
}

}  // namespace device
}  // namespace tfcompress
