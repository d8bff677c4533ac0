// Conversions to IEEE binary16 and bfloat16, rounding to nearest even. Infinities and NaN are kept;
// a finite float above the largest finite half becomes infinite.
#ifndef TFCOMPRESS_CORE_HALF_H_
#define TFCOMPRESS_CORE_HALF_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

TFC_HOST_DEVICE inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = FloatBits(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;   // NaN, quiet.
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // Rounds to infinity, or is infinite.
  if (magnitude < 0x38800000u) {
    // Below the smallest normal half: the float addition rounds to a multiple of 2^-24 exactly.
    const float rounded = FloatFromBits(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(FloatBits(rounded) - FloatBits(0.5f));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<uint16_t>((magnitude - (112u << 23) + 0xFFFu + odd) >> 13);
}

TFC_HOST_DEVICE inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return FloatFromBits(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  if (magnitude < 0x0400u) {
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -subnormal : subnormal;
  }
  return FloatFromBits(sign | ((magnitude << 13) + (112u << 23)));
}

TFC_HOST_DEVICE inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

TFC_HOST_DEVICE inline float BFloat16ToFloat(uint16_t bfloat16) {
  return FloatFromBits(static_cast<uint32_t>(bfloat16) << 16);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_HALF_H_
