// The range of the magnitudes of one sign: what value codecs clamp to and bound their error by.
#ifndef TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_
#define TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_

#include <algorithm>
#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Finite magnitudes without a sign bit, least <= largest.
struct MagnitudeRange {
  float least = 0;
  float largest = 0;

  // What bytes off the wire have to be.
  TFC_HOST_DEVICE bool IsValid() const {
    // Floats without a sign bit are ordered as their bits; with one, the bits are greater.
    return FloatBits(least) <= FloatBits(largest) && FloatBits(largest) < kFloatInfinityBits;
  }
  Status Check() const {
    if (IsValid()) return OkStatus();
    return DataLoss("magnitudes in [", least, ", ", largest, "]");
  }

  // Then values need no curve: they are clamped to the only one there is.
  TFC_HOST_DEVICE bool IsOneMagnitude() const { return FloatBits(least) == FloatBits(largest); }

  // The bits of y, rounded to a float of this range: the same in every floating-point mode, since
  // nothing subnormal is converted.
  TFC_HOST_DEVICE uint32_t RoundedBits(double y) const {
    y = y < largest ? y : largest;
    y = y < 0x1p-126 ? 0 : y;
    uint32_t bits = FloatBits(static_cast<float>(y));
    bits = bits > FloatBits(least) ? bits : FloatBits(least);
    return bits < FloatBits(largest) ? bits : FloatBits(largest);
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
