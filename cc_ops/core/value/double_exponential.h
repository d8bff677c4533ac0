// Least-squares fit of y = a e^(bx) + c e^(dx) (DeepReduce section 5, nonlinear regression).
#ifndef TFCOMPRESS_CORE_VALUE_DOUBLE_EXPONENTIAL_H_
#define TFCOMPRESS_CORE_VALUE_DOUBLE_EXPONENTIAL_H_

#include "core/exp.h"
#include "core/span.h"

namespace tfcompress {

struct DoubleExponential {
  float a = 0;
  float b = 0;
  float c = 0;
  float d = 0;

  // e^exponent, the same bits on every machine. Clamped to the range of a float: sums and products
  // of finite parameters with a few of these are finite doubles.
  static double Term(double exponent) {
    constexpr double kMaxExponent = 87;
    exponent = exponent < -kMaxExponent ? -kMaxExponent : exponent;
    exponent = exponent > kMaxExponent ? kMaxExponent : exponent;
    return DeterministicExp(exponent);
  }
};

// `weight` points of the curve, replaced by their mean.
struct CurvePoint {
  double x;
  double y;
  double weight;
};

// Fits points with x in [0, 1] ascending and |y| <= 1. Falls back to zeros where nothing fits.
DoubleExponential FitDoubleExponential(Span<const CurvePoint> points);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_DOUBLE_EXPONENTIAL_H_
