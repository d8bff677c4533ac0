#include "core/entropy/delta_bytes.h"
#include "cuda/delta_bytes.h"
#include "cuda/encoded_frame.h"
#include "cuda/launch.h"
#include "cuda/scan.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// Keys per lane: those of one byte of flags.
constexpr uint32_t kLaneKeys = 4;
constexpr uint32_t kRowKeys = kLaneKeys * kWarpThreads;
static_assert(KeyLists::kKeysPerTile == kTileElements);
static_assert(kTileElements % kRowKeys == 0 && kDeltaBytesBlock % kTileElements == 0);
constexpr uint32_t kBlockTiles = static_cast<uint32_t>(kDeltaBytesBlock) / kTileElements;

// Up to four deltas and their flags. Loops over them have constant length, so that they stay in
// registers.
struct Four {
  uint32_t deltas[kLaneKeys];
  uint32_t flags[kLaneKeys];
  uint32_t size;

  __device__ uint32_t PayloadBytes() const {
    uint32_t sum = 0;
    for (uint32_t j = 0; j < kLaneKeys; ++j) sum += j < size ? flags[j] + 1 : 0;
    return sum;
  }
  __device__ unsigned char PackedFlags() const {
    uint32_t packed = 0;
    for (uint32_t j = 0; j < kLaneKeys; ++j) packed |= j < size ? flags[j] << (2 * j) : 0;
    return static_cast<unsigned char>(packed);
  }
};

__device__ uint32_t SizeAt(uint64_t first, uint32_t k) {
  if (first >= k) return 0;
  return k - first < kLaneKeys ? static_cast<uint32_t>(k - first) : kLaneKeys;
}

__device__ Four FourOfKeys(const uint32_t* keys, uint64_t first, uint32_t k) {
  Four four;
  four.size = SizeAt(first, k);
  for (uint32_t j = 0; j < kLaneKeys; ++j) {
    const uint64_t i = first + j;
    if (j >= four.size) continue;
    four.deltas[j] = keys[i] - (i % kDeltaBytesBlock == 0 ? 0 : keys[i - 1]);
    four.flags[j] = DeltaFlag(four.deltas[j]);
  }
  return four;
}

// Reads only the flags.
__device__ Four FourOfFlags(const unsigned char* flags, uint64_t first, uint32_t k) {
  Four four;
  four.size = SizeAt(first, k);
  const uint32_t packed = four.size == 0 ? 0 : flags[first / kLaneKeys];
  for (uint32_t j = 0; j < kLaneKeys; ++j) four.flags[j] = packed >> (2 * j) & 3;
  return four;
}

// Counts the payload bytes of each tile; `four_at(tile, first)` returns the flags.
template <typename FourAt>
__device__ void MeasureTiles(const KeyLists& lists, uint64_t max_tiles, const FourAt& four_at,
                             uint64_t* num_bytes) {
  for (uint64_t i = ThisWarp(); i < max_tiles; i += NumWarps()) {
    const KeyTile tile = lists.At(i);
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kRowKeys)
      own += four_at(tile, tile.tile * kTileElements + row + ThisLane() * kLaneKeys).PayloadBytes();
    own = SumOfLanes(own);
    if (ThisLane() == 0) num_bytes[i] = own;
  }
}

__global__ void MeasureKeysKernel(KeyLists lists, const uint32_t* keys, uint64_t max_tiles,
                                  uint64_t* num_bytes) {
  const auto four_at = [&](const KeyTile& tile, uint64_t first) {
    return FourOfKeys(keys + tile.begin, first, tile.size);
  };
  MeasureTiles(lists, max_tiles, four_at, num_bytes);
}

__device__ const unsigned char* SectionOf(const CodeSections& sections, uint32_t list) {
  return sections.data_dev + sections.BeginOf(list);
}

__global__ void MeasureFlagsKernel(KeyLists lists, CodeSections sections, uint64_t max_tiles,
                                   uint64_t* num_bytes) {
  const auto four_at = [&](const KeyTile& tile, uint64_t first) {
    return FourOfFlags(SectionOf(sections, tile.list), first, tile.size);
  };
  MeasureTiles(lists, max_tiles, four_at, num_bytes);
}

// Where the code of each list is written: in a table, or the index section of a frame.
struct GivenPlaces {
  unsigned char* const* places_dev;

  __device__ unsigned char* Of(uint32_t list) const { return places_dev[list]; }
};

struct PlacesInFrames {
  const EncodedFrame* frames_dev;

  __device__ unsigned char* Of(uint32_t list) const {
    return frames_dev[list].data_dev + kFrameHeaderBytes;
  }
};

// Encodes tiles row by row, four keys per lane.
template <typename Places>
__global__ void EncodeDeltasKernel(KeyLists lists, const uint32_t* keys, uint64_t max_tiles,
                                   const uint64_t* ends, Places places) {
  for (uint64_t i = ThisWarp(); i < max_tiles; i += NumWarps()) {
    const KeyTile tile = lists.At(i);
    unsigned char* flags = places.Of(tile.list);
    unsigned char* payload = flags + NumFlagBytes(tile.size);
    uint64_t row_begin = ends[i] - ends[tile.first_tile];
    for (uint32_t row = 0; row < kTileElements; row += kRowKeys) {
      const uint64_t first = tile.tile * kTileElements + row + ThisLane() * kLaneKeys;
      const Four four = FourOfKeys(keys + tile.begin, first, tile.size);
      const uint32_t own = four.PayloadBytes();
      const uint32_t up_to_own = InclusiveSum(own);
      if (four.size > 0) flags[first / kLaneKeys] = four.PackedFlags();
      unsigned char* to = payload + row_begin + up_to_own - own;
      for (uint32_t j = 0; j < kLaneKeys; ++j) {
        if (j >= four.size) continue;
        for (uint32_t byte = 0; byte <= four.flags[j]; ++byte)
          *to++ = static_cast<unsigned char>(four.deltas[j] >> (8 * byte));
      }
      row_begin += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
  }
}

__global__ void SizeDeltasKernel(KeyLists lists, const uint64_t* ends, uint64_t* num_bytes) {
  for (uint64_t i = ThisThread(); i < lists.num_lists; i += NumThreads()) {
    const auto list = static_cast<uint32_t>(i);
    num_bytes[list] = ends[lists.EndTileOf(list)] - ends[lists.FirstTileOf(list)];
  }
}

// Whether the code of a list has the length that its flags say; the same result in all lanes.
__device__ bool HasRightLength(const KeyLists& lists, const CodeSections& sections,
                               const KeyTile& tile, const uint64_t* ends) {
  const uint32_t num_last = tile.size % kLaneKeys;
  const unsigned char* flags = SectionOf(sections, tile.list);
  if (num_last != 0 && flags[tile.size / kLaneKeys] >> (2 * num_last) != 0) return false;
  const uint64_t num_payload_bytes = ends[lists.EndTileOf(tile.list)] - ends[tile.first_tile];
  return NumFlagBytes(tile.size) + num_payload_bytes == sections.NumBytesOf(tile.list);
}

// Replaces the deltas of a tile by their running sums from 0; returns the total.
__device__ uint32_t SumTile(const KeyTile& tile, const unsigned char* flags, uint64_t row_begin,
                            uint32_t* keys) {
  const unsigned char* payload = flags + NumFlagBytes(tile.size);
  uint32_t distance = 0;
  for (uint32_t row = 0; row < kTileElements; row += kRowKeys) {
    const uint64_t first = tile.tile * kTileElements + row + ThisLane() * kLaneKeys;
    Four four = FourOfFlags(flags, first, tile.size);
    const uint32_t own_bytes = four.PayloadBytes();
    const uint32_t up_to_own_bytes = InclusiveSum(own_bytes);
    const unsigned char* from = payload + row_begin + up_to_own_bytes - own_bytes;
    uint32_t own = 0;
    for (uint32_t j = 0; j < kLaneKeys; ++j) {
      four.deltas[j] = 0;
      if (j >= four.size) continue;
      for (uint32_t byte = 0; byte <= four.flags[j]; ++byte)
        four.deltas[j] |= static_cast<uint32_t>(*from++) << (8 * byte);
      own += four.deltas[j];
    }
    const uint32_t up_to_own = InclusiveSum(own);
    uint32_t key = distance + up_to_own - own;
    for (uint32_t j = 0; j < kLaneKeys; ++j) {
      key += four.deltas[j];
      if (j < four.size) keys[first + j] = key;
    }
    distance += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    row_begin += __shfl_sync(kAllLanes, up_to_own_bytes, kWarpThreads - 1);
  }
  return distance;
}

__global__ void SumDeltasKernel(KeyLists lists, CodeSections sections, uint64_t max_tiles,
                                const uint64_t* ends, uint32_t bits, uint32_t* error,
                                uint32_t* keys, uint32_t* distances) {
  for (uint64_t i = ThisWarp(); i < max_tiles; i += NumWarps()) {
    const KeyTile tile = lists.At(i);
    if (tile.size == 0) continue;
    if (!HasRightLength(lists, sections, tile, ends)) {
      if (ThisLane() == 0) atomicOr(error, bits);
      continue;
    }
    const uint32_t distance = SumTile(tile, SectionOf(sections, tile.list),
                                      ends[i] - ends[tile.first_tile], keys + tile.begin);
    if (ThisLane() == 0) distances[i] = distance;
  }
}

// Adds the start of each tile to its keys: the sum of the distances before it in its block.
__global__ void AddDistancesKernel(KeyLists lists, uint64_t max_tiles, const uint32_t* distances,
                                   const uint32_t* error, uint32_t* keys) {
  if (*error != 0) return;
  for (uint64_t i = ThisWarp(); i < max_tiles; i += NumWarps()) {
    const KeyTile tile = lists.At(i);
    if (!tile.exists()) continue;
    uint32_t begin = 0;
    for (uint64_t before = tile.first_tile + tile.tile / kBlockTiles * kBlockTiles + ThisLane();
         before < i; before += kWarpThreads)
      begin += distances[before];
    begin = SumOfLanes(begin);
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t key = tile.tile * kTileElements + row + ThisLane();
      if (key < tile.size) keys[tile.begin + key] += begin;
    }
  }
}

}  // namespace

void TakeDeltaBuffers(uint32_t num_lists, uint32_t max_keys, Workspace* workspace,
                      DeltaBuffers* buffers) {
  buffers->max_tiles = MaxKeyTiles(num_lists, max_keys);
  buffers->ends_dev = workspace->Take<uint64_t>(buffers->max_tiles + 1);
  buffers->distances_dev = workspace->Take<uint32_t>(buffers->max_tiles);
}

Status MeasureDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                     cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(LaunchWarps("measure keys", MeasureKeysKernel, buffers.max_tiles, stream,
                                  lists, keys_dev, buffers.max_tiles, buffers.ends_dev));
  return ScanCounts(buffers.ends_dev, buffers.max_tiles, stream);
}

Status EncodeDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                    unsigned char* const* places_dev, cudaStream_t stream) {
  return LaunchWarps("encode deltas", EncodeDeltasKernel<GivenPlaces>, buffers.max_tiles, stream,
                     lists, keys_dev, buffers.max_tiles, buffers.ends_dev, GivenPlaces{places_dev});
}

Status EncodeDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                    const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchWarps("encode deltas", EncodeDeltasKernel<PlacesInFrames>, buffers.max_tiles, stream,
                     lists, keys_dev, buffers.max_tiles, buffers.ends_dev,
                     PlacesInFrames{frames.data_dev});
}

Status SizeDeltas(const KeyLists& lists, const DeltaBuffers& buffers, uint64_t* num_bytes_dev,
                  cudaStream_t stream) {
  return LaunchThreads("size deltas", SizeDeltasKernel, lists.num_lists, stream, lists,
                       buffers.ends_dev, num_bytes_dev);
}

Status DecodeDeltas(const KeyLists& lists, const CodeSections& sections,
                    const DeltaBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                    uint32_t* keys_dev, cudaStream_t stream) {
  const uint64_t max_tiles = MaxKeyTiles(lists.num_lists, lists.max_keys);
  TFC_RETURN_IF_ERROR(LaunchWarps("measure flags", MeasureFlagsKernel, max_tiles, stream, lists,
                                  sections, max_tiles, buffers.ends_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ends_dev, max_tiles, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("sum deltas", SumDeltasKernel, max_tiles, stream, lists, sections,
                                  max_tiles, buffers.ends_dev, bits, error_dev, keys_dev,
                                  buffers.distances_dev));
  return LaunchWarps("add distances", AddDistancesKernel, max_tiles, stream, lists, max_tiles,
                     buffers.distances_dev, error_dev, keys_dev);
}

}  // namespace device
}  // namespace tfcompress
