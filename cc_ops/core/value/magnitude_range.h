// The range of the magnitudes of one sign: what value codecs clamp to and bound their error by.
#ifndef TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_
#define TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_

#include <algorithm>
#include <cstdint>

#include "core/float_order.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Finite magnitudes without a sign bit, least <= largest.
struct MagnitudeRange {
  float least = 0;
  float largest = 0;

  // What bytes off the wire have to be.
  Status Check() const {
    // Floats without a sign bit are ordered as their bits; with one, the bits are greater.
    if (FloatBits(least) <= FloatBits(largest) && FloatBits(largest) < kFloatInfinityBits) {
      return OkStatus();
    }
    return DataLoss("magnitudes in [", least, ", ", largest, "]");
  }

  // The bits of y, rounded to a float of this range: the same in every floating-point mode, since
  // nothing subnormal is converted.
  uint32_t RoundedBits(double y) const {
    y = y < largest ? y : largest;
    y = y < 0x1p-126 ? 0 : y;
    return std::min(std::max(FloatBits(static_cast<float>(y)), FloatBits(least)),
                    FloatBits(largest));
  }
};

// The largest difference between two magnitudes of the same sign.
inline double WidestRange(Span<const float> values) {
  double widest = 0;
  for (const bool negative : {false, true}) {
    uint32_t least = kFloatMagnitudeBits;
    uint32_t largest = 0;
    for (float value : values) {
      if (IsNegative(value) != negative) continue;
      least = std::min(least, FloatBits(value) & kFloatMagnitudeBits);
      largest = std::max(largest, FloatBits(value) & kFloatMagnitudeBits);
    }
    if (least > largest) continue;
    widest = std::max(widest, double{FloatFromBits(largest)} - double{FloatFromBits(least)});
  }
  return widest;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_
