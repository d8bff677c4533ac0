// A falling curve as segments, each with its own polynomial (Fit-Poly, DeepReduce section 5).
#ifndef TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_
#define TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/span.h"
#include "core/value/magnitude_range.h"

namespace tfcompress {

inline constexpr uint32_t kMaxPolynomialDegree = 8;
inline constexpr uint32_t kMaxCoefficients = kMaxPolynomialDegree + 1;

// Points and their polynomial, with values in [0, 1] from range.least to range.largest.
struct PolynomialSegment {
  uint32_t length = 0;
  MagnitudeRange range;
  float coefficients[kMaxCoefficients] = {};

  // At most the number of points: polynomials of higher degree vanish at all points.
  uint32_t NumCoefficients(uint32_t degree) const {
    return length < degree + 1 ? length : degree + 1;
  }
  static constexpr uint64_t NumBytes(uint32_t num_coefficients) {
    return sizeof(uint32_t) + 2 * sizeof(float) + num_coefficients * sizeof(float);
  }
};

// The number of segments that Lemma 1 suggests for falling magnitudes, at least one: p = ceil(2
// sqrt(M)), where M is the change of the slope between the two ends, at least 1.
//
// The lemma holds on an interval of length 1, and p makes its bound of the error, 2 M / p^2, half a
// unit of the values. So positions are taken in units of the length and values in units of the
// largest one: then p does not depend on the units of the gradient. Taken as they are, gradients
// below 1 would always get a single segment.
uint32_t LemmaOneSegments(Span<const float> magnitudes);

// Cuts falling magnitudes, at least one, into at most `max_segments` segments and fits each.
std::vector<PolynomialSegment> FitSegments(Span<const float> magnitudes, uint32_t degree,
                                           uint32_t max_segments, Executor* executor);

// Computes the values of all points of a segment, with `sign_bit`. Part of the wire format.
void EvaluateSegment(const PolynomialSegment& segment, uint32_t degree, uint32_t sign_bit,
                     Executor* executor, Span<float> values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_
