// The groups of a sketch as kernels see them, for encoding and decoding.
#ifndef TFCOMPRESS_CUDA_SKETCH_GROUPS_H_
#define TFCOMPRESS_CUDA_SKETCH_GROUPS_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/joint/bucket_groups.h"
#include "core/sketch/sketch_columns.h"
#include "cuda/key_lists.h"
#include "cuda/launch.h"
#include "cuda/sketch_group.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {

// Value of a cell before a key is inserted.
inline constexpr uint32_t kEmptyCell = 0xFFFFFFFFu;

// Position of a cell among those of the group.
__device__ inline uint64_t CellOf(const SketchGroup& group, uint32_t row, uint32_t key) {
  return uint64_t{row} * group.num_columns +
         SketchColumn(key, MixedRowSeed(row, group.seed), group.num_columns);
}

// Returns the bucket of a key in its group; `cell_at(i)` returns a cell of the group.
template <typename CellAt>
__device__ uint32_t Query(const SketchGroup& group, uint32_t num_rows, uint32_t key,
                          const CellAt& cell_at) {
  uint32_t greatest = 0;
  for (uint32_t row = 0; row < num_rows; ++row) {
    const uint32_t cell = cell_at(CellOf(group, row, key));
    if (cell > greatest) greatest = cell;
  }
  return greatest;
}

__device__ inline float WithSign(float magnitude, uint32_t sign) {
  return FloatFromBits(FloatBits(magnitude) | (sign == 0 ? 0 : kFloatSignBit));
}

// Calls body(i, list) for the keys of all lists, numbered by i. One warp per tile, one key per
// lane.
template <typename Body>
__device__ void ForEachKey(const KeyLists& lists, uint64_t max_tiles, const Body& body) {
  for (uint64_t t = ThisWarp(); t < max_tiles; t += NumWarps()) {
    const KeyTile tile = lists.At(t);
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile.tile * kTileElements + row + ThisLane();
      if (i < tile.size) body(tile.begin + i, tile.list);
    }
  }
}

// Calls body(i, list) for i below count_of(list), for every list that has keys. One warp per tile
// of keys; it takes the tile's share of the items.
template <typename CountOf, typename Body>
__device__ void ForEachOfLists(const KeyLists& lists, uint64_t max_tiles, const CountOf& count_of,
                               const Body& body) {
  for (uint64_t t = ThisWarp(); t < max_tiles; t += NumWarps()) {
    const KeyTile tile = lists.At(t);
    if (!tile.exists()) continue;
    const uint64_t num_tiles = lists.EndTileOf(tile.list) - tile.first_tile;
    const uint64_t count = count_of(tile.list);
    const uint64_t end = count * (tile.tile + 1) / num_tiles;
    for (uint64_t i = count * tile.tile / num_tiles + ThisLane(); i < end; i += kWarpThreads)
      body(i, tile.list);
  }
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_GROUPS_H_
