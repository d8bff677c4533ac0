// The value section: written from the dense vector, or added to a sum.
#ifndef TFCOMPRESS_CUDA_VALUES_H_
#define TFCOMPRESS_CUDA_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/encode_state.h"
#include "cuda/value_format.h"

namespace tfcompress {
namespace device {

// Writes the value section of the frame whose lengths stand in `state_dev`: the elements at
// `indices_dev`, or all where that is null. With `residual_dev`, takes what they decode to out of
// it. Sections are of no more than max_k elements.
Status EncodeValues(ValueFormat format, const DenseVector& dense, const uint32_t* indices_dev,
                    uint32_t max_k, const EncodeState* state_dev, float* residual_dev,
                    unsigned char* frame_dev, cudaStream_t stream);

// Adds scale times the k values of a section to the elements at `indices_dev`, which are distinct
// and in range, or to all where that is null. Sets bits of *error_dev where a value is not finite;
// does nothing where one is set before.
Status AddScaled(ValueFormat format, const unsigned char* section_dev, const uint32_t* indices_dev,
                 uint32_t k, float scale, uint32_t bits, uint32_t* error_dev, float* sum_dev,
                 cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUES_H_
