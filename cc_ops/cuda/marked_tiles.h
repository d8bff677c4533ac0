// Marks as kernels see them: one bit for each element of a vector, in tiles.
#ifndef TFCOMPRESS_CUDA_MARKED_TILES_H_
#define TFCOMPRESS_CUDA_MARKED_TILES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {

// ends_dev holds the number of marks in each tile and, after a scan, the number before each tile,
// with one more element behind the last. Tiles of vectors side by side lie end to end and are
// scanned together: the numbers of each begin with ends_dev[0].
struct MarkedTiles {
  uint64_t n;
  uint32_t* words_dev;  // Padded to whole tiles; bits from n on are 0.
  uint64_t* ends_dev;

  TFC_HOST_DEVICE uint64_t num_tiles() const { return NumTiles(n); }
  // The numbers of marks before a tile, and of all, after a scan.
  __device__ uint64_t NumBefore(uint64_t tile) const { return ends_dev[tile] - ends_dev[0]; }
  __device__ uint64_t NumMarked() const { return NumBefore(num_tiles()); }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_MARKED_TILES_H_
