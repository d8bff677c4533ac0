// Sums of frames of all elements, for the value codecs of which a tile can be decoded alone: one
// pass adds what all ranks sent, and writes each sum once.
#ifndef TFCOMPRESS_CUDA_DENSE_SUM_H_
#define TFCOMPRESS_CUDA_DENSE_SUM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/parts.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

// Whether values of all elements are summed so: numbers and block_int.
inline bool SumsInOnePass(ValueKind kind) { return !IsCoded(kind) || kind == ValueKind::kBlockInt; }

// As AddScaled of values.h, for the values of several ranks, of `num_tensors` tensors each, in rank
// order; a frame has all elements or none. Numbers of a frame whose error is set are added, too.
// The sums are those of the first rank's tensors. If it does not `add` to what they are, they begin
// as 0, so that they need not be cleared.
Status SumDense(const Parts<AddedValues>& values, size_t num_tensors, bool add, float scale,
                uint32_t bits, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DENSE_SUM_H_
