#include <algorithm>

#include "core/bit_io.h"
#include "core/float_order.h"
#include "cuda/cuda_status.h"
#include "cuda/group_lists.h"
#include "cuda/launch.h"
#include "cuda/scan.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Signs -------------------------------------------------------------------------------------

__global__ void CountNegativesKernel(SelectedValues values, const uint32_t* k, uint64_t num_tiles,
                                     uint64_t* counts) {
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      if (i < *k) own += IsNegative(values.At(i));
    }
    own = SumOfLanes(own);
    if (ThisLane() == 0) counts[tile] = own;
  }
}

struct SplitTargets {
  float* magnitudes[kNumSigns];
  uint32_t* keys;
  uint32_t* counts;
};

// One warp per tile; it goes row by row.
__global__ void SplitSignsKernel(SelectedValues values, const uint32_t* k_dev, uint64_t num_tiles,
                                 const uint64_t* negatives, SplitTargets to) {
  const uint64_t k = *k_dev;
  const uint64_t num_nonnegative = k - negatives[num_tiles];
  if (ThisThread() == 0) {
    to.counts[0] = static_cast<uint32_t>(num_nonnegative);
    to.counts[1] = static_cast<uint32_t>(k - num_nonnegative);
  }
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t num_negative = negatives[tile];
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      const float value = i < k ? values.At(i) : 0.0f;
      const uint32_t lanes = __ballot_sync(kAllLanes, IsNegative(value));
      const uint64_t negative = num_negative + static_cast<uint64_t>(__popc(lanes & LanesBefore()));
      num_negative += static_cast<uint64_t>(__popc(lanes));
      if (i >= k) continue;
      const bool is_negative = IsNegative(value);
      const uint64_t place = is_negative ? negative : i - negative;
      // A condition instead of an index keeps the pointers in registers.
      float* magnitudes = is_negative ? to.magnitudes[1] : to.magnitudes[0];
      magnitudes[place] = FloatFromBits(FloatBits(value) & kFloatMagnitudeBits);
      to.keys[is_negative ? num_nonnegative + place : place] = values.IndexOf(i);
    }
  }
}

Status SplitSigns(const SelectedValues& values, const uint32_t* k_dev,
                  const GroupListsBuffers& buffers, cudaStream_t stream) {
  const uint64_t num_tiles = NumTiles(buffers.max_k);
  TFC_RETURN_IF_ERROR(LaunchWarps("count negatives", CountNegativesKernel, num_tiles, stream,
                                  values, k_dev, num_tiles, buffers.negatives_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.negatives_dev, num_tiles, stream));
  const SplitTargets to = {{buffers.magnitudes_dev[0], buffers.magnitudes_dev[1]},
                           buffers.split_keys_dev,
                           buffers.counts_dev};
  return LaunchWarps("split signs", SplitSignsKernel, num_tiles, stream, values, k_dev, num_tiles,
                     buffers.negatives_dev, to);
}

// ---- Groups ------------------------------------------------------------------------------------

// Assigns lists to the elements of one sign, before the sort. Places after the last element get the
// last list, so that the sort leaves them at the end.
__global__ void AssignListsKernel(uint32_t sign, uint32_t max_groups, uint32_t max_k,
                                  const uint32_t* counts, const uint32_t* codes,
                                  const uint32_t* num_buckets, uint32_t* num_buckets_out,
                                  uint32_t* lists, uint32_t* places, uint32_t* offsets) {
  const BucketGroups groups(*num_buckets, max_groups);
  const uint64_t begin = sign == 0 ? 0 : counts[0];
  const uint64_t end = begin + counts[sign];
  if (ThisThread() == 0) *num_buckets_out = *num_buckets;
  for (uint64_t i = begin + ThisThread(); i < (sign == 0 ? end : max_k); i += NumThreads()) {
    places[i] = static_cast<uint32_t>(i);
    lists[i] = kNumSigns * max_groups - 1;
    if (i >= end) continue;
    const uint32_t code = codes[i - begin];
    lists[i] = sign * max_groups + code / groups.width;
    offsets[i] = code % groups.width;
  }
}

Status AssignLists(uint32_t sign, const GroupListsBuffers& buffers, cudaStream_t stream) {
  const SelectedValues magnitudes = {{buffers.magnitudes_dev[sign], DType::kFloat32, buffers.max_k},
                                     nullptr};
  const QuantizerBuffers& quantizer = buffers.quantizer;
  TFC_RETURN_IF_ERROR(QuantizeToBuckets(magnitudes, buffers.counts_dev + sign, quantizer, stream));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(buffers.means_dev[sign], quantizer.means_dev,
                                           quantizer.max_used_buckets() * sizeof(float),
                                           cudaMemcpyDeviceToDevice, stream));
  return LaunchThreads("assign lists", AssignListsKernel, buffers.max_k, stream, sign,
                       buffers.config.groups, buffers.max_k, buffers.counts_dev,
                       quantizer.codes_dev(), quantizer.num_buckets_dev(),
                       buffers.num_buckets_dev + sign, buffers.lists.keys_dev,
                       buffers.lists.payloads_dev, buffers.split_offsets_dev);
}

__global__ void FindListsKernel(const uint32_t* sorted_lists, const uint32_t* k, KeyLists lists) {
  const auto begin_of = [&](uint64_t list) {
    return static_cast<uint32_t>(
        FirstAfter(0, *k, [&](uint64_t i) { return sorted_lists[i] >= list; }));
  };
  for (uint64_t list = ThisThread(); list < lists.num_lists; list += NumThreads()) {
    lists.begins_dev[list] = begin_of(list);
    lists.sizes_dev[list] = begin_of(list + 1) - lists.begins_dev[list];
  }
}

__global__ void PlaceListsKernel(KeyLists lists) {
  if (ThisThread() == 0) PlaceLists(lists.sizes_dev, lists.num_lists, lists.first_tiles_dev);
}

__global__ void GatherListsKernel(const uint32_t* places, const uint32_t* k,
                                  const uint32_t* split_keys, const uint32_t* split_offsets,
                                  uint32_t* keys, uint32_t* offsets) {
  for (uint64_t i = ThisThread(); i < *k; i += NumThreads()) {
    keys[i] = split_keys[places[i]];
    offsets[i] = split_offsets[places[i]];
  }
}

}  // namespace

Status TakeGroupLists(const GroupedSketchConfig& config, uint32_t max_k, Workspace* workspace,
                      GroupListsBuffers* buffers) {
  buffers->max_k = max_k;
  buffers->config = config;
  buffers->negatives_dev = workspace->Take<uint64_t>(NumTiles(max_k) + 1);
  buffers->counts_dev = workspace->Take<uint32_t>(kNumSigns);
  buffers->num_buckets_dev = workspace->Take<uint32_t>(kNumSigns);
  const uint32_t num_lists = kNumSigns * config.groups;
  const int num_list_bits = BitsFor(num_lists);
  QuantizerBuffers* const quantizer = &buffers->quantizer;
  TFC_RETURN_IF_ERROR(
      TakeQuantizerBuffers(max_k, config.buckets, num_list_bits, workspace, quantizer));
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    buffers->magnitudes_dev[sign] = workspace->Take<float>(max_k);
    buffers->means_dev[sign] = workspace->Take<float>(quantizer->max_used_buckets());
  }
  buffers->split_keys_dev = workspace->Take<uint32_t>(max_k);
  buffers->split_offsets_dev = workspace->Take<uint32_t>(max_k);
  // When lists are sorted, the codes of both signs have been read.
  buffers->lists = quantizer->codes;
  buffers->lists.num_bits = num_list_bits;
  buffers->lists.keys_dev = workspace->Take<uint32_t>(max_k);
  buffers->lists.payloads_dev = workspace->Take<uint32_t>(max_k);
  buffers->keys_dev = quantizer->codes.keys_dev;
  buffers->offsets_dev = quantizer->codes.payloads_dev;
  buffers->key_lists = TakeKeyLists(num_lists, max_k, workspace);
  return OkStatus();
}

Status MakeGroupLists(const SelectedValues& values, const uint32_t* k_dev,
                      const GroupListsBuffers& buffers, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(SplitSigns(values, k_dev, buffers, stream));
  for (uint32_t sign = 0; sign < kNumSigns; ++sign)
    TFC_RETURN_IF_ERROR(AssignLists(sign, buffers, stream));
  TFC_RETURN_IF_ERROR(Sort(buffers.lists, stream));
  const KeyLists& lists = buffers.key_lists;
  TFC_RETURN_IF_ERROR(LaunchThreads("find lists", FindListsKernel, lists.num_lists, stream,
                                    buffers.lists.sorted_keys_dev, k_dev, lists));
  TFC_RETURN_IF_ERROR(Launch("place lists", PlaceListsKernel, 1, kWarpThreads, stream, lists));
  return LaunchThreads("gather lists", GatherListsKernel, buffers.max_k, stream,
                       buffers.lists.sorted_payloads_dev, k_dev, buffers.split_keys_dev,
                       buffers.split_offsets_dev, buffers.keys_dev, buffers.offsets_dev);
}

}  // namespace device
}  // namespace tfcompress
