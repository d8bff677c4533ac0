// Recovery of large elements from a Count Sketch: the two methods of Sketched-SGD.
#ifndef TFCOMPRESS_CORE_LINEAR_RECOVERY_H_
#define TFCOMPRESS_CORE_LINEAR_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "core/codec.h"
#include "core/sketch/count_sketch.h"
#include "core/span.h"

namespace tfcompress {

// Overwrites `indices`, ascending, and `values` with the min(count, n) elements of [0, n) whose
// estimates are largest in magnitude, ties by lower index, and these estimates. (Sketched-SGD 5.1,
// Algorithm 3, line 9, where count is P k.) Takes n floats of memory for the estimates.
void TopCandidates(const CountSketch& sketch, Span<const float> table, int64_t n, int64_t count,
                   Executor* executor, std::vector<uint32_t>* indices, std::vector<float>* values);

// The same with min(k, n) elements chosen by HEAVYMIX (Sketched-SGD, Algorithm 1): those whose
// squared estimate is at least 1 / k of the squared norm, only the k largest if there are more; if
// there are fewer, others are added at random by the context's seed.
void HeavyMix(const CountSketch& sketch, Span<const float> table, int64_t n, int64_t k,
              const CodecContext& context, std::vector<uint32_t>* indices,
              std::vector<float>* values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_LINEAR_RECOVERY_H_
