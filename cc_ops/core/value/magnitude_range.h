// The range of the magnitudes of one sign: what value codecs clamp to and bound their error by.
#ifndef TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_
#define TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_

#include <algorithm>
#include <cmath>
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

  // The bits of y, 0 where it is subnormal, rounded to a float of this range.
  TFC_HOST_DEVICE uint32_t RoundedBits(double y) const {
    y = y < largest ? y : largest;
    y = y < 0x1p-126 ? 0 : y;
    uint32_t bits = FloatBits(static_cast<float>(y));
    bits = bits > FloatBits(least) ? bits : FloatBits(least);
    return bits < FloatBits(largest) ? bits : FloatBits(largest);
  }
};

// How far each value is from the farther one of the least and the largest magnitude of its sign.
inline void DistancesWithinSigns(Span<const float> values, Span<double> distances) {
  uint32_t least[kNumSigns] = {kFloatMagnitudeBits, kFloatMagnitudeBits};
  uint32_t largest[kNumSigns] = {};
  for (float value : values) {
    const bool sign = IsNegative(value);
    least[sign] = std::min(least[sign], MagnitudeBits(value));
    largest[sign] = std::max(largest[sign], MagnitudeBits(value));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const bool sign = IsNegative(values[i]);
    const double magnitude = std::fabs(double{values[i]});
    distances[i] =
        std::max(magnitude - FloatFromBits(least[sign]), FloatFromBits(largest[sign]) - magnitude);
  }
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_MAGNITUDE_RANGE_H_
