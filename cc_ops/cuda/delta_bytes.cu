#include "core/entropy/delta_bytes.h"
#include "cuda/delta_bytes.h"
#include "cuda/launch.h"
#include "cuda/scan.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// A lane takes the four keys of a byte of flags.
constexpr uint32_t kLaneKeys = 4;
constexpr uint32_t kRowKeys = kLaneKeys * kWarpThreads;
static_assert(kTileElements % kRowKeys == 0 && kDeltaBytesBlock % kTileElements == 0);
constexpr uint32_t kBlockTiles = static_cast<uint32_t>(kDeltaBytesBlock) / kTileElements;

// Four deltas or fewer, and their flags. Loops over them are of constant length, so that they stay
// in registers.
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

// Only the flags.
__device__ Four FourOfFlags(const unsigned char* flags, uint64_t first, uint32_t k) {
  Four four;
  four.size = SizeAt(first, k);
  const uint32_t packed = four.size == 0 ? 0 : flags[first / kLaneKeys];
  for (uint32_t j = 0; j < kLaneKeys; ++j) four.flags[j] = packed >> (2 * j) & 3;
  return four;
}

// Payload bytes of each tile; `four_at(first)` has the flags.
template <typename FourAt>
__device__ void MeasureTiles(uint64_t num_tiles, const FourAt& four_at, uint64_t* num_bytes) {
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kRowKeys)
      own += four_at(tile * kTileElements + row + ThisLane() * kLaneKeys).PayloadBytes();
    own = SumOfLanes(own);
    if (ThisLane() == 0) num_bytes[tile] = own;
  }
}

__global__ void MeasureKeysKernel(const uint32_t* keys, const uint32_t* k, uint64_t num_tiles,
                                  uint64_t* num_bytes) {
  MeasureTiles(num_tiles, [&](uint64_t first) { return FourOfKeys(keys, first, *k); }, num_bytes);
}

__global__ void MeasureFlagsKernel(const unsigned char* flags, uint32_t k, uint64_t num_tiles,
                                   uint64_t* num_bytes) {
  MeasureTiles(num_tiles, [&](uint64_t first) { return FourOfFlags(flags, first, k); }, num_bytes);
}

__global__ void EncodeDeltasKernel(const uint32_t* keys, const uint32_t* num_keys,
                                   const uint64_t* ends, unsigned char* flags) {
  const uint32_t k = *num_keys;
  unsigned char* payload = flags + NumFlagBytes(k);
  const uint64_t num_tiles = NumTiles(k);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t row_begin = ends[tile];
    for (uint32_t row = 0; row < kTileElements; row += kRowKeys) {
      const uint64_t first = tile * kTileElements + row + ThisLane() * kLaneKeys;
      const Four four = FourOfKeys(keys, first, k);
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

// Whether the section is what its flags say; the same in all threads.
__device__ bool HasRightLength(const unsigned char* flags, uint32_t k, uint64_t num_section_bytes,
                               uint64_t num_payload_bytes) {
  const uint32_t num_last = k % kLaneKeys;
  if (num_last != 0 && flags[k / kLaneKeys] >> (2 * num_last) != 0) return false;
  return NumFlagBytes(k) + num_payload_bytes == num_section_bytes;
}

// Sums the deltas of each tile up, from 0.
__global__ void SumDeltasKernel(const unsigned char* flags, uint64_t num_section_bytes, uint32_t k,
                                uint64_t num_tiles, const uint64_t* ends, uint32_t bits,
                                uint32_t* error, uint32_t* keys, uint32_t* distances) {
  if (!HasRightLength(flags, k, num_section_bytes, ends[num_tiles])) {
    if (ThisThread() == 0) atomicOr(error, bits);
    return;
  }
  const unsigned char* payload = flags + NumFlagBytes(k);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t row_begin = ends[tile];
    uint32_t distance = 0;
    for (uint32_t row = 0; row < kTileElements; row += kRowKeys) {
      const uint64_t first = tile * kTileElements + row + ThisLane() * kLaneKeys;
      Four four = FourOfFlags(flags, first, k);
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
    if (ThisLane() == 0) distances[tile] = distance;
  }
}

// Adds to the keys of each tile where it begins: the distances before it in its block of the code.
__global__ void AddDistancesKernel(uint32_t k, uint64_t num_tiles, const uint32_t* distances,
                                   const uint32_t* error, uint32_t* keys) {
  if (*error != 0) return;
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t begin = 0;
    for (uint64_t before = tile / kBlockTiles * kBlockTiles + ThisLane(); before < tile;
         before += kWarpThreads)
      begin += distances[before];
    begin = SumOfLanes(begin);
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      if (i < k) keys[i] += begin;
    }
  }
}

}  // namespace

const uint64_t* DeltaBuffers::num_payload_bytes_dev() const { return ends_dev + NumTiles(max_k); }

Status TakeDeltaBuffers(uint32_t max_k, Workspace* workspace, DeltaBuffers* buffers) {
  const uint64_t num_tiles = NumTiles(max_k);
  buffers->max_k = max_k;
  buffers->ends_dev = workspace->Take<uint64_t>(num_tiles + 1);
  buffers->distances_dev = workspace->Take<uint32_t>(num_tiles);
  return TakeScanStorage(num_tiles, workspace, &buffers->scan_storage);
}

Status MeasureDeltas(const uint32_t* keys_dev, const uint32_t* k_dev, const DeltaBuffers& buffers,
                     cudaStream_t stream) {
  const uint64_t num_tiles = NumTiles(buffers.max_k);
  TFC_RETURN_IF_ERROR(LaunchWarps("measure keys", MeasureKeysKernel, num_tiles, stream, keys_dev,
                                  k_dev, num_tiles, buffers.ends_dev));
  return ScanCounts(buffers.ends_dev, num_tiles, buffers.scan_storage, stream);
}

Status EncodeDeltas(const uint32_t* keys_dev, const uint32_t* k_dev, const DeltaBuffers& buffers,
                    unsigned char* section_dev, cudaStream_t stream) {
  return LaunchWarps("encode deltas", EncodeDeltasKernel, NumTiles(buffers.max_k), stream, keys_dev,
                     k_dev, buffers.ends_dev, section_dev);
}

Status DecodeDeltas(const unsigned char* section_dev, uint64_t num_section_bytes, uint32_t k,
                    const DeltaBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                    uint32_t* keys_dev, cudaStream_t stream) {
  const uint64_t num_tiles = NumTiles(k);
  TFC_RETURN_IF_ERROR(LaunchWarps("measure flags", MeasureFlagsKernel, num_tiles, stream,
                                  section_dev, k, num_tiles, buffers.ends_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ends_dev, num_tiles, buffers.scan_storage, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("sum deltas", SumDeltasKernel, num_tiles, stream, section_dev,
                                  num_section_bytes, k, num_tiles, buffers.ends_dev, bits,
                                  error_dev, keys_dev, buffers.distances_dev));
  return LaunchWarps("add distances", AddDistancesKernel, num_tiles, stream, k, num_tiles,
                     buffers.distances_dev, error_dev, keys_dev);
}

}  // namespace device
}  // namespace tfcompress
