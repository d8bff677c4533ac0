// A falling curve as segments, each with its own polynomial (Fit-Poly, DeepReduce section 5).
#ifndef TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_
#define TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/span.h"
#include "core/value/polynomial_basis.h"

namespace tfcompress {

// Cuts falling magnitudes, at least one, into at most `max_segments` segments and fits each.
std::vector<PolynomialSegment> FitSegments(Span<const float> magnitudes, uint32_t degree,
                                           uint32_t max_segments, Executor* executor);

// Computes the values of all points of a segment, with `sign_bit`. Part of the wire format.
void EvaluateSegment(const PolynomialSegment& segment, uint32_t degree, uint32_t sign_bit,
                     Executor* executor, Span<float> values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_
