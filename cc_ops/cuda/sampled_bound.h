// The bound from which candidates for the k largest magnitudes are marked, told by a sample: the
// pass that compensates a vector need not know its magnitudes before.
#ifndef TFCOMPRESS_CUDA_SAMPLED_BOUND_H_
#define TFCOMPRESS_CUDA_SAMPLED_BOUND_H_

#include <cuda_runtime.h>

#include "core/status.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// For vectors that are to be compensated: clears select.counts_dev, and sets min_magnitude in the
// states to the bound that select.sample asks for. Zeros never are candidates.
Status FindBounds(const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SAMPLED_BOUND_H_
