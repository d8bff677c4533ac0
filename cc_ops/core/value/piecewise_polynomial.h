// A falling curve as segments, each with its own polynomial (Fit-Poly, DeepReduce section 5).
//
// The basis are the polynomials that are orthogonal on the m equally spaced points of a segment
// (Gram's, which tend to Legendre's). With t running from -1 to 1,
//
//   P_0 = 1, P_1 = t, P_(j+1) = t P_j - beta_j P_(j-1), beta_j = j^2 (m^2 - j^2) / ((4 j^2 - 1) (m
//   - 1)^2)
//
// A least-squares fit is one inner product for each coefficient, with no system to solve: powers of
// the position would lose all digits of a double at degree 5 already.
#ifndef TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_
#define TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/span.h"
#include "core/value/magnitude_range.h"

namespace tfcompress {

inline constexpr uint32_t kMaxPolynomialDegree = 8;

// Points and their polynomial, with values in [0, 1] from range.least to range.largest.
struct PolynomialSegment {
  uint32_t length = 0;
  MagnitudeRange range;
  std::array<float, kMaxPolynomialDegree + 1> coefficients = {};

  // No more than there are points: the polynomials after these vanish at all of them.
  uint32_t NumCoefficients(uint32_t degree) const { return std::min(length, degree + 1); }
};

// The number of segments that Lemma 1 suggests for falling magnitudes: p = ceil(2 sqrt(M)), where M
// is the change of the slope between the two ends, at least 1.
//
// The lemma holds on an interval of length 1, and p makes its bound of the error, 2 M / p^2, half a
// unit of the values. So positions are taken in units of the length and values in units of the
// largest one: then p does not depend on the units of the gradient. Taken as they are, gradients
// below 1 would always get a single segment.
uint32_t SuggestedSegments(Span<const float> magnitudes);

// Cuts falling magnitudes, at least one, into at most `max_segments` segments and fits each.
std::vector<PolynomialSegment> FitSegments(Span<const float> magnitudes, uint32_t degree,
                                           uint32_t max_segments, Executor* executor);

// The values of all points of a segment, with `sign_bit`. Part of the wire format.
void EvaluateSegment(const PolynomialSegment& segment, uint32_t degree, uint32_t sign_bit,
                     Executor* executor, Span<float> values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_PIECEWISE_POLYNOMIAL_H_
