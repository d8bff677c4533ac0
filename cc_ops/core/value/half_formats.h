// The 16-bit formats that value codecs round to. A finite value beyond the largest finite one of
// the format becomes that one, so that decoded values are always finite.
#ifndef TFCOMPRESS_CORE_VALUE_HALF_FORMATS_H_
#define TFCOMPRESS_CORE_VALUE_HALF_FORMATS_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/half.h"
#include "core/host_device.h"

namespace tfcompress {

// The half that is not NaN, or the largest in place of infinity.
TFC_HOST_DEVICE inline uint16_t SaturateHalf(uint16_t half) {
  return (half & 0x7C00u) == 0x7C00u ? half - 1 : half;
}
// `value` is finite.
TFC_HOST_DEVICE inline uint16_t SaturatingHalf(float value) {
  return SaturateHalf(FloatToHalf(value));
}

TFC_HOST_DEVICE inline uint16_t SaturatingBFloat16(float value) {
  const uint32_t bits = FloatBits(value);
  uint32_t magnitude = bits & kFloatMagnitudeBits;
  magnitude = magnitude < 0x7F7F0000u ? magnitude : 0x7F7F0000u;
  const uint32_t rounded = magnitude + 0x7FFFu + ((magnitude >> 16) & 1u);
  return static_cast<uint16_t>((rounded | (bits & kFloatSignBit)) >> 16);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_HALF_FORMATS_H_
