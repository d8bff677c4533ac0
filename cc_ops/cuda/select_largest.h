// Exact selection of the k largest magnitudes, ties by lower index, of one vector or of several
// side by side: a radix selection over three digits. It reads candidates, the elements above a
// bound that a sample tells (sampled_bound.h); if they are not enough or too many for their buffer,
// the dense vector instead.
#ifndef TFCOMPRESS_CUDA_SELECT_LARGEST_H_
#define TFCOMPRESS_CUDA_SELECT_LARGEST_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/sample_size.h"
#include "cuda/select_counts.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

// What the selection from a vector, or from vectors side by side, takes of the workspace.
struct SelectSpace {
  SelectCounts* counts_dev = nullptr;  // See FindBounds.
  SampleSize sample;
  uint32_t* indices_dev = nullptr;  // Candidates, with their magnitudes.
  uint32_t* magnitudes_dev = nullptr;
  // Kept elements of each tile of candidates; after a scan, those before it.
  uint64_t* kept_dev = nullptr;

  // That of the i-th vector, from a tile and a candidate on.
  TFC_HOST_DEVICE SelectSpace Slice(uint64_t i, uint64_t first_tile, uint64_t first_candidate,
                                    const SampleSize& own_sample) const {
    return {counts_dev + i, own_sample, indices_dev + first_candidate,
            magnitudes_dev + first_candidate, kept_dev + first_tile + i};
  }
};

// Takes what the selection of k of n elements needs.
SelectSpace TakeSelectSpace(uint32_t n, uint32_t k, Workspace* workspace);
// Takes what vectors need whose SampleSizes have room for so many candidates together.
SelectSpace TakeSelectSpaces(uint64_t num_vectors, uint64_t num_tiles, uint64_t num_candidates,
                             Workspace* workspace);

// Lists the support of each frame from the candidates, after FindBounds and the pass that
// compensates frames and marks candidates: the state_dev->num_wanted elements of largest magnitude,
// ascending; Inf is larger than every number, NaN larger than Inf. `marks` are those of all frames.
// For a vector that is not finite, writes nothing, but sets the state's k to 0.
Status SelectLargest(const Marks& marks, const Parts<EncodedFrame>& frames, cudaStream_t stream);

// The same for vectors that get no frames, as ToSelectFrom of compensate.h makes them. Overwrites
// the marks. What is not finite is large, unless the state says nonfinite before.
Status SelectLargestValues(const Marks& marks, const Parts<EncodedFrame>& vectors,
                           cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SELECT_LARGEST_H_
