// Exact selection of the k largest magnitudes, ties by lower index, of one vector or of several
// side by side: a radix selection over three digits. It reads candidates, the elements above a
// bound that a sample tells (sampled_bound.h); if they are not enough or too many for their buffer,
// the dense vector instead.
#ifndef TFCOMPRESS_CUDA_SELECT_LARGEST_H_
#define TFCOMPRESS_CUDA_SELECT_LARGEST_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/sample_size.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;
struct SelectCounts;

// What the selection from a vector takes of the workspace.
struct SelectSpace {
  SelectCounts* counts_dev = nullptr;  // See FindBounds.
  SampleSize sample;
  uint32_t* indices_dev = nullptr;  // Candidates, with their magnitudes.
  uint32_t* magnitudes_dev = nullptr;
  // Kept elements of each tile of candidates; after a scan, those before it.
  uint64_t* kept_dev = nullptr;
};

// Takes what the selection of k of n elements needs.
SelectSpace TakeSelectSpace(uint32_t n, uint32_t k, Workspace* workspace);

// Overwrites selected_dev with the indices of the state_dev->num_wanted largest of marks.n values,
// ascending; Inf is larger than every number, NaN larger than Inf. Writes nothing, but sets the
// state's k to 0, if that says nonfinite. Overwrites the marks.
Status SelectLargest(const float* values_dev, const SelectSpace& space, const Marks& marks,
                     EncodeState* state_dev, uint32_t* selected_dev, cudaStream_t stream);

// The same for frames, after FindBounds and the pass that compensates them and marks candidates.
// Lists the support of each frame from the candidates; `marks` are those of all frames. Writes
// nothing for a vector that is not finite.
Status SelectLargest(const Marks& marks, const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SELECT_LARGEST_H_
