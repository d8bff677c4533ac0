// The levels of log on the device, and what they leave of a support.
#ifndef TFCOMPRESS_CUDA_RECIPROCAL_LOG_LEVELS_H_
#define TFCOMPRESS_CUDA_RECIPROCAL_LOG_LEVELS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/marks.h"

namespace tfcompress {
namespace device {

// MeasureValues of coded_values.h for log; with `filters`, what MarkKept needs, and not a section.
Status MeasureLog(const ValueSpec& spec, bool filters, const SelectedValues& values, uint32_t max_k,
                  const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream);

// Marks which of the *k_dev <= max_k elements are sent, for a spec that Narrows.
Status MarkKept(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                const uint32_t* k_dev, const CodedBuffers& buffers, const Marks& marks,
                cudaStream_t stream);

// Computes the levels of the section with these parameters into levels_dev, unless an error is set;
// sets bits of *error_dev if a level is not finite.
Status ReadLevels(uint32_t bits, ValueParams* params_dev, float* levels_dev, uint32_t* error_dev,
                  cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_RECIPROCAL_LOG_LEVELS_H_
