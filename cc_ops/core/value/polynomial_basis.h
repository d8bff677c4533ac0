// The arithmetic of poly, for core and GPU: polynomials on equally spaced points, segments of a
// falling curve, and their split points.
//
// The basis is the polynomials that are orthogonal on the m equally spaced points of a segment
// (Gram's, which tend to Legendre's). With t running from -1 to 1,
//
//   P_0 = 1, P_1 = t, P_(j+1) = t P_j - beta_j P_(j-1), beta_j = j^2 (m^2 - j^2) / ((4 j^2 - 1) (m
//   - 1)^2)
//
// A least-squares fit is one inner product for each coefficient, with no system to solve: powers of
// the position would lose all digits of a double at degree 5 already.
#ifndef TFCOMPRESS_CORE_VALUE_POLYNOMIAL_BASIS_H_
#define TFCOMPRESS_CORE_VALUE_POLYNOMIAL_BASIS_H_

#include <cmath>
#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/value/magnitude_range.h"

namespace tfcompress {

inline constexpr uint32_t kMaxPolynomialDegree = 8;
inline constexpr uint32_t kMaxCoefficients = kMaxPolynomialDegree + 1;
inline constexpr uint32_t kMaxSegments = 256;  // For a sign.

// The basis on the points of a segment.
struct PolynomialBasis {
  double step;
  uint32_t size;
  double beta[kMaxCoefficients];

  TFC_HOST_DEVICE void Set(uint32_t num_points, uint32_t num_polynomials) {
    const double m = num_points;
    step = num_points > 1 ? 2.0 / (m - 1) : 0.0;
    size = num_polynomials;
    beta[0] = 0;
    for (uint32_t j = 1; j < size; ++j) {
      const double jj = static_cast<double>(j) * j;
      beta[j] = jj * (m * m - jj) / ((4 * jj - 1) * ((m - 1) * (m - 1)));
    }
  }

  // t of a position.
  TFC_HOST_DEVICE double PointAt(int64_t position) const {
    return static_cast<double>(position) * step - 1;
  }
  // P_(j+1) from P_j and P_(j-1).
  TFC_HOST_DEVICE static double Next(double t, double current, double beta, double previous) {
    return t * current - beta * previous;
  }
  // The sum of the squares of P_j over all points.
  TFC_HOST_DEVICE double SquaredNorm(uint32_t j, uint32_t num_points) const {
    double norm = num_points;
    for (uint32_t i = 1; i <= j; ++i) norm *= beta[i];
    return norm;
  }
};

// Scale of a segment's polynomial: from the least to the largest magnitude.
struct PolynomialScale {
  double low;
  double width;
  double inverse_width;

  TFC_HOST_DEVICE explicit PolynomialScale(const MagnitudeRange& range)
      : low(NormalOrZero(range.least)),
        width(NormalOrZero(range.largest) - low),
        inverse_width(1 / width) {}

  TFC_HOST_DEVICE double UnitOf(float magnitude) const {
    return (NormalOrZero(magnitude) - low) * inverse_width;
  }
  TFC_HOST_DEVICE double MagnitudeOf(double y) const { return low + width * y; }
};

// Points and their polynomial, with values in [0, 1] from range.least to range.largest.
struct PolynomialSegment {
  uint32_t length = 0;
  MagnitudeRange range;
  float coefficients[kMaxCoefficients] = {};

  // At most the number of points: polynomials of higher degree vanish at all points.
  TFC_HOST_DEVICE uint32_t NumCoefficients(uint32_t degree) const {
    return length < degree + 1 ? length : degree + 1;
  }
  TFC_HOST_DEVICE static constexpr uint64_t NumBytes(uint32_t num_coefficients) {
    return sizeof(uint32_t) + 2 * sizeof(float) + num_coefficients * sizeof(float);
  }
};

// The line that joins the ends of a piece of at least two points.
struct Chord {
  double first;
  double slope;

  TFC_HOST_DEVICE static Chord Between(float first, float last, int64_t length) {
    const double begin = NormalOrZero(first);
    return {begin, (NormalOrZero(last) - begin) / static_cast<double>(length - 1)};
  }
  // Distance of the i-th point from the line.
  TFC_HOST_DEVICE double DistanceTo(float magnitude, int64_t i) const {
    return std::fabs(NormalOrZero(magnitude) - (first + slope * static_cast<double>(i)));
  }
  // Whether a piece is measured: a polynomial fits all points of a shorter piece exactly.
  TFC_HOST_DEVICE static bool MayBend(int64_t length, uint32_t degree) {
    return length >= int64_t{degree} + 1 && length >= 3;
  }
  // Split position of a piece whose i-th point is the farthest; neither part is empty.
  TFC_HOST_DEVICE static int64_t SplitAt(int64_t i, int64_t length) {
    if (i < 1) return 1;
    return i < length - 1 ? i : length - 1;
  }
};

// The number of segments that Lemma 1 suggests for falling magnitudes, at least one: p = ceil(2
// sqrt(M)), where M is the change of the slope between the two ends, at least 1.
//
// The lemma holds on an interval of length 1, and p makes its bound of the error, 2 M / p^2, half a
// unit of the values. So positions are taken in units of the length and values in units of the
// largest one: then p does not depend on the units of the gradient. Taken as they are, gradients
// below 1 would always get a single segment.
template <typename MagnitudeAt>
TFC_HOST_DEVICE uint32_t LemmaOneSegments(uint64_t size, const MagnitudeAt& magnitude_at) {
  const double largest = NormalOrZero(magnitude_at(0));
  if (size < 3 || largest == 0) return 1;
  const double first_gap = largest - NormalOrZero(magnitude_at(1));
  const double last_gap =
      NormalOrZero(magnitude_at(size - 2)) - NormalOrZero(magnitude_at(size - 1));
  const double change = std::fabs(first_gap - last_gap) / largest * static_cast<double>(size - 1);
  const auto suggested = static_cast<uint32_t>(std::ceil(2 * std::sqrt(change)));
  return suggested < 1 ? 1 : suggested;
}

// Limits of the heuristic: at most the number of pieces in DeepReduce's Figure 5, and enough values
// per piece to pay for its parameters.
inline constexpr uint32_t kMaxSuggestedSegments = 8;
inline constexpr uint32_t kMinSuggestedLength = 64;

template <typename MagnitudeAt>
TFC_HOST_DEVICE uint32_t SuggestedSegments(uint64_t size, const MagnitudeAt& magnitude_at) {
  const uint32_t suggested = LemmaOneSegments(size, magnitude_at);
  const uint64_t affordable = size / kMinSuggestedLength;
  const uint32_t most = affordable < 1                       ? 1
                        : affordable < kMaxSuggestedSegments ? static_cast<uint32_t>(affordable)
                                                             : kMaxSuggestedSegments;
  return suggested < most ? suggested : most;
}

// The parameters of poly in a spec.
struct PolynomialConfig {
  uint32_t degree;
  uint32_t segments;  // Maximum for a sign; 0 for the number that the heuristic suggests.

  TFC_HOST_DEVICE uint32_t MaxSegments() const {
    return segments == 0 ? kMaxSuggestedSegments : segments;
  }
  // Least and most of what stands in a section of k values before their ranks: the degree, and the
  // segments of each sign after their number.
  static constexpr uint64_t kMinBytes = 3 * sizeof(uint32_t) + PolynomialSegment::NumBytes(1);
  TFC_HOST_DEVICE uint64_t MaxBytes(uint64_t k) const {
    const uint64_t most = 2 * uint64_t{MaxSegments()};
    return 3 * sizeof(uint32_t) + (most < k ? most : k) * PolynomialSegment::NumBytes(degree + 1);
  }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_POLYNOMIAL_BASIS_H_
