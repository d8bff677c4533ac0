// Value sections, written from dense vectors. tile_sums.h adds them.
#ifndef TFCOMPRESS_CUDA_VALUES_H_
#define TFCOMPRESS_CUDA_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

// Writes the value sections of frames whose lengths are in their states. Subtracts the decoded
// values from the residuals. `buffers` are used if the spec IsCoded.
Status EncodeValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                    const CodedBuffers& buffers, cudaStream_t stream);

// Copies the values of supports to where these lie, with gathered_dev in place of supports_dev, for
// codecs that send them at other indices: subtracting what was sent would overwrite the originals,
// which are in the residual.
Status GatherValues(const Parts<EncodedFrame>& frames, const uint32_t* supports_dev,
                    float* gathered_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUES_H_
