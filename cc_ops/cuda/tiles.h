// Tiles: units of work for one warp. The 1024 elements of a tile have one word of 32 marks for each
// lane.
#ifndef TFCOMPRESS_CUDA_TILES_H_
#define TFCOMPRESS_CUDA_TILES_H_

#include <cstdint>

#include "core/host_device.h"
#include "cuda/ceil_div.h"

namespace tfcompress {
namespace device {

inline constexpr uint32_t kTileElements = 1024;
inline constexpr uint32_t kTileWords = kTileElements / 32;

// Elements that a lane loads before it uses the first, so that the loads overlap.
inline constexpr uint32_t kLoadsAtOnce = 4;

TFC_HOST_DEVICE inline uint64_t NumTiles(uint64_t num_elements) {
  return CeilDiv(num_elements, kTileElements);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_TILES_H_
