// Ascending lists of keys that lie end to end in one array and are coded separately. Tiles never
// span two lists, so that the same kernels serve a single list, the groups of a sketch, and the
// frames of a step.
#ifndef TFCOMPRESS_CUDA_KEY_LISTS_H_
#define TFCOMPRESS_CUDA_KEY_LISTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/binary_search.h"
#include "cuda/ceil_div.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// A tile of keys, with its list.
struct KeyTile {
  uint32_t list;
  uint32_t begin;       // First key of the list, among all keys.
  uint32_t size;        // Keys of the list; past the last tile, see exists().
  uint64_t first_tile;  // First tile of the list, among all tiles.
  uint64_t tile;        // Number of this tile in its list.

  // Number of the tile's first key in its list.
  __device__ uint64_t FirstKey() const;
  __device__ bool exists() const { return FirstKey() < size; }
};

struct KeyLists {
  // All three are null if there is one list, of max_keys keys or of *sizes_dev.
  uint32_t* begins_dev;
  uint32_t* sizes_dev;
  uint32_t* first_tiles_dev;  // num_lists + 1 elements; the last is the number of all tiles.
  uint32_t num_lists;         // Including empty ones.
  uint32_t max_keys;          // Maximum of all lists together.

  static KeyLists One(uint32_t size) { return {nullptr, nullptr, nullptr, 1, size}; }
  // One list of *size_dev <= max_size keys.
  static KeyLists One(uint32_t* size_dev, uint32_t max_size) {
    return {nullptr, size_dev, nullptr, 1, max_size};
  }

  // Upper bound of the lists that have keys.
  uint32_t max_used_lists() const { return num_lists < max_keys ? num_lists : max_keys; }

  __device__ uint32_t BeginOf(uint32_t list) const {
    return begins_dev == nullptr ? 0 : begins_dev[list];
  }
  __device__ uint32_t SizeOf(uint32_t list) const {
    return sizes_dev == nullptr ? max_keys : sizes_dev[list];
  }
  __device__ uint64_t FirstTileOf(uint32_t list) const {
    return first_tiles_dev == nullptr ? 0 : first_tiles_dev[list];
  }
  // The tile after the last one of the list.
  __device__ uint64_t EndTileOf(uint32_t list) const {
    if (first_tiles_dev != nullptr) return first_tiles_dev[list + 1];
    return CeilDiv(SizeOf(list), kKeysPerTile);
  }

  // Sets a list of the tables, with its number of tiles, which a scan of first_tiles_dev turns into
  // its first tile.
  __device__ void Set(uint32_t list, uint32_t begin, uint32_t size) const {
    begins_dev[list] = begin;
    sizes_dev[list] = size;
    first_tiles_dev[list] = static_cast<uint32_t>(CeilDiv(size, kKeysPerTile));
  }

  __device__ KeyTile At(uint64_t tile) const {
    if (first_tiles_dev == nullptr) return {0, 0, SizeOf(0), 0, tile};
    // Find the last list that does not begin after the tile.
    const auto list = static_cast<uint32_t>(
        FirstAfter(1, num_lists, [&](uint64_t i) { return first_tiles_dev[i] > tile; }) - 1);
    const uint64_t first = first_tiles_dev[list];
    const bool exists = tile < first_tiles_dev[num_lists];
    return {list, begins_dev[list], exists ? sizes_dev[list] : 0, first, tile - first};
  }

  static constexpr uint32_t kKeysPerTile = 1024;
};

__device__ inline uint64_t KeyTile::FirstKey() const { return tile * KeyLists::kKeysPerTile; }

// Takes the tables of lists, for kernels to fill.
inline KeyLists TakeKeyLists(uint32_t num_lists, uint32_t max_keys, Workspace* workspace) {
  return {workspace->Take<uint32_t>(num_lists), workspace->Take<uint32_t>(num_lists),
          workspace->Take<uint32_t>(uint64_t{num_lists} + 1), num_lists, max_keys};
}

// Positions of the codes of lists.
struct CodeSections {
  __device__ uint64_t BeginOf(uint32_t list) const {
    return begins_dev == nullptr ? 0 : begins_dev[list];
  }
  __device__ uint64_t NumBytesOf(uint32_t list) const {
    return num_bytes_dev == nullptr ? num_bytes : num_bytes_dev[list];
  }

  const unsigned char* data_dev;  // Null if the codes are in the words that they are brought to.
  uint64_t num_bytes;             // Length of all codes.
  // Begin and length of the code of each list; both null if there is one list.
  const uint64_t* begins_dev;
  const uint64_t* num_bytes_dev;
  // For codes that are brought to whole words: where each is in data_dev; num_bytes counts these
  // words. The longest code has max_bytes.
  const uint64_t* sources_dev = nullptr;
  uint64_t max_bytes = 0;
};

// Sets the first tiles of lists of these sizes, for tables that are made on the host.
inline void PlaceLists(const uint32_t* sizes, uint32_t num_lists, uint32_t* first_tiles) {
  uint32_t num_tiles = 0;
  for (uint32_t list = 0; list < num_lists; ++list) {
    first_tiles[list] = num_tiles;
    num_tiles += static_cast<uint32_t>(CeilDiv(sizes[list], KeyLists::kKeysPerTile));
  }
  first_tiles[num_lists] = num_tiles;
}

// Upper bound of the tiles of lists with max_keys keys together: at most one for each key, and each
// list may have one that is not full.
inline uint64_t MaxKeyTiles(uint32_t num_lists, uint64_t max_keys) {
  const uint64_t max_tiles = CeilDiv(max_keys, KeyLists::kKeysPerTile) + num_lists - 1;
  return max_tiles < max_keys ? max_tiles : max_keys;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_KEY_LISTS_H_
