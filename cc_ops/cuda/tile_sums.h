// Sums of what all ranks sent, tile by tile: a warp adds the elements that each rank has of its
// tile, in rank order, and writes each sum once.
#ifndef TFCOMPRESS_CUDA_TILE_SUMS_H_
#define TFCOMPRESS_CUDA_TILE_SUMS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// Which of the groups of ranks that are summed one after the other a launch takes.
struct SumStep {
  bool is_first;  // Sums begin as 0, so that they need not be cleared.
  bool is_last;   // Sums are written to out_dev, and not to sum_dev.
};

// Adds scale times the values of several ranks, of `num_tensors` tensors each, in rank order, all
// of one kind: at their indices, which are sorted and in range unless the error is set, or all
// elements of a tensor or none. The sums are those of the first rank's tensors. Sets bits of the
// errors of frames that do not hold finite values; sums to which a frame with an error belongs are
// unspecified. Call ReadParameters first if the kind IsCoded.
Status SumTiles(const Parts<AddedValues>& values, size_t num_tensors, bool have_indices,
                SumStep step, float scale, uint32_t bits, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_TILE_SUMS_H_
