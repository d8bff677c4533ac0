// The levels of log on the device, and what they leave of a support.
#ifndef TFCOMPRESS_CUDA_RECIPROCAL_LOG_LEVELS_H_
#define TFCOMPRESS_CUDA_RECIPROCAL_LOG_LEVELS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/encoded_frame.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

struct AddedValues;

// MeasureValues of coded_values.h for log.
Status MeasureLog(const ValueSpec& spec, const Parts<EncodedFrame>& frames, float* levels_dev,
                  cudaStream_t stream);

// Marks which elements of the support of each frame are sent, for a spec that Narrows; `marks` are
// those of all frames. The extremes of the frames must be 0 before and are so afterwards.
Status MarkKept(const ValueSpec& spec, const Parts<EncodedFrame>& frames, const Marks& marks,
                float* levels_dev, cudaStream_t stream);

// Computes the levels of each section into its table_dev, and sets bits of its error if one is not
// finite. Does nothing for sections without values, and those whose error is set.
Status ReadLevels(uint32_t bits, const Parts<AddedValues>& sections, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_RECIPROCAL_LOG_LEVELS_H_
