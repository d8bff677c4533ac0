// The value section: written from the dense vector, or added to a sum.
#ifndef TFCOMPRESS_CUDA_VALUES_H_
#define TFCOMPRESS_CUDA_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/encode_state.h"
#include "cuda/sent_slots.h"
#include "cuda/value_spec.h"
#include "cuda/value_statistics.h"

namespace tfcompress {
namespace device {

// Writes the value section of the frame whose lengths stand in `state_dev` and whose seed is
// `seed`. Takes what the values decode to out of the residual. They are no more than
// max_k. `buffers` are those of the spec where it IsCoded.
Status EncodeValues(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                    uint64_t seed, const CodedBuffers& buffers, const EncodeState* state_dev,
                    const SentResidual& residual, unsigned char* frame_dev, cudaStream_t stream);

// Copies the *k_dev <= max_k values, for codecs that send them in another place: the residual that
// they are taken out of is where they lie.
Status GatherValues(const SelectedValues& values, const uint32_t* k_dev, uint32_t max_k,
                    float* gathered_dev, cudaStream_t stream);

// Adds scale times the values of a section to the elements at `indices_dev`, which are distinct
// and in range, or to all where that is null. Sets bits of *error_dev where the section is none of
// k finite values; does nothing where one is set before. `buffers` are for sections of any kind
// that is read.
Status AddScaled(const ValueSectionView& section, const uint32_t* indices_dev, float scale,
                 uint32_t bits, const ParamBuffers& buffers, uint32_t* error_dev, float* sum_dev,
                 cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUES_H_
