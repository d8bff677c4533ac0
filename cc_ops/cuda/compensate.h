// The two passes over the dense vector. The memory's addition, the finite check, the first
// histogram of a top-k and the marking of what a bound selects are fused into them.
#ifndef TFCOMPRESS_CUDA_COMPENSATE_H_
#define TFCOMPRESS_CUDA_COMPENSATE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"

namespace tfcompress {
namespace device {

// Reads: sets state_dev->nonfinite where an element is not finite and, with `histogram_dev`, adds
// the first digits of all magnitudes to it. Nothing is written yet: the residual has to stay as it
// is when the vector is not finite.
Status Inspect(const DenseVector& vector, uint32_t* histogram_dev, EncodeState* state_dev,
               cudaStream_t stream);

// Writes: the vector to `after_dev`, or what the memory had where it is not finite, unless that is
// null; and, with `marks`, marks and counts the elements of state_dev->min_magnitude and above,
// none where the vector is not finite.
Status Settle(const DenseVector& vector, float* after_dev, const Marks* marks,
              const EncodeState* state_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATE_H_
