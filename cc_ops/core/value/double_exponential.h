// The curve y = a e^(bx) + c e^(dx) of dexp, and its evaluation at the ranks of sorted values,
// which is part of the wire format.
#ifndef TFCOMPRESS_CORE_VALUE_DOUBLE_EXPONENTIAL_H_
#define TFCOMPRESS_CORE_VALUE_DOUBLE_EXPONENTIAL_H_

#include <cstdint>

#include "core/exp.h"
#include "core/float_order.h"
#include "core/host_device.h"
#include "core/span.h"
#include "core/value/magnitude_range.h"

namespace tfcompress {

struct DoubleExponential {
  float a = 0;
  float b = 0;
  float c = 0;
  float d = 0;

  TFC_HOST_DEVICE bool IsFinite() const {
    return IsFiniteBits(FloatBits(a)) && IsFiniteBits(FloatBits(b)) && IsFiniteBits(FloatBits(c)) &&
           IsFiniteBits(FloatBits(d));
  }

  // e^exponent, the same bits on every machine. Clamped to the range of a float: sums and products
  // of finite parameters with a few of these are finite doubles.
  TFC_HOST_DEVICE static double Term(double exponent) {
    constexpr double kMaxExponent = 87;
    exponent = exponent < -kMaxExponent ? -kMaxExponent : exponent;
    exponent = exponent > kMaxExponent ? kMaxExponent : exponent;
    return DeterministicExp(exponent);
  }
};

// The values of one sign, sorted: a curve that falls from the largest magnitude at x = 0 to the
// least at x = 1. The largest magnitude also is the unit of the curve, so that its amplitudes are
// moderate whatever the scale of the values. A part without values has no curve.
struct CurvePart {
  uint32_t count = 0;
  DoubleExponential curve;
  MagnitudeRange range;

  // Bytes after the count of a part that has values.
  static constexpr uint64_t kCurveBytes = 6 * sizeof(float);

  // Exponentials are evaluated once every kStride ranks and multiplied on from there:
  // e^(b(x + h)) = e^(bx) e^(bh).
  static constexpr uint32_t kStride = 64;

  // Distance between the x of two ranks.
  TFC_HOST_DEVICE double Step() const { return count > 1 ? 1.0 / (count - 1) : 0.0; }

  // Both exponentials: with their amplitudes at the first rank of a stride, or their factors
  // `offset` ranks later.
  struct Terms {
    double first;
    double second;
  };
  TFC_HOST_DEVICE Terms At(uint32_t rank) const {
    const double x = static_cast<double>(rank) * Step();
    return {double{range.largest} * NormalOrZero(curve.a) * DoubleExponential::Term(curve.b * x),
            double{range.largest} * NormalOrZero(curve.c) * DoubleExponential::Term(curve.d * x)};
  }
  TFC_HOST_DEVICE Terms Factors(uint32_t offset) const {
    const double x = static_cast<double>(offset) * Step();
    return {DoubleExponential::Term(curve.b * x), DoubleExponential::Term(curve.d * x)};
  }
  // The value of a rank.
  TFC_HOST_DEVICE float Value(const Terms& begin, const Terms& factors, uint32_t sign_bit) const {
    const double y = begin.first * factors.first + begin.second * factors.second;
    return FloatFromBits(range.RoundedBits(y) | sign_bit);
  }
};

// `weight` points of the curve, replaced by their mean.
struct CurvePoint {
  double x;
  double y;
  double weight;
};

// Fits up to kMaxCells points (curve_cells.h) with x in [0, 1] ascending and |y| <= 1. Falls back
// to zeros if nothing fits.
DoubleExponential FitDoubleExponential(Span<const CurvePoint> points);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_DOUBLE_EXPONENTIAL_H_
