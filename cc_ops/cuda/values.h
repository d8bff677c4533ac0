// Value sections: writes them from dense vectors, or adds them to sums.
#ifndef TFCOMPRESS_CUDA_VALUES_H_
#define TFCOMPRESS_CUDA_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/value_spec.h"
#include "cuda/value_statistics.h"

namespace tfcompress {
namespace device {

// Writes the value sections of frames whose lengths are in their states. Subtracts the decoded
// values from the residuals. `buffers` are those of each frame, if the spec IsCoded.
Status EncodeValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                    Span<const CodedBuffers> buffers, cudaStream_t stream);

// Copies the *k_dev <= max_k values, for codecs that send them at other indices: subtracting what
// was sent would overwrite the originals, which are in the residual.
Status GatherValues(const SelectedValues& values, const uint32_t* k_dev, uint32_t max_k,
                    float* gathered_dev, cudaStream_t stream);

// Adds scale times the values of sections of one kind to sums, each its own. Sets bits of the
// errors of those that do not hold k finite values; does nothing for those whose error is set
// before. Call ReadParameters first if the kind IsCoded.
Status AddScaled(const Parts<AddedValues>& sections, float scale, uint32_t bits,
                 cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUES_H_
