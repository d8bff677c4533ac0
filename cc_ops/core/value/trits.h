// The arithmetic of ternary between values and bytes of five trits: 0 for 0, 1 for s, 2 for -s.
#ifndef TFCOMPRESS_CORE_VALUE_TRITS_H_
#define TFCOMPRESS_CORE_VALUE_TRITS_H_

#include <cmath>
#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/value/rounding_noise.h"

namespace tfcompress {

inline constexpr int kTritsPerByte = 5;
inline constexpr uint32_t kNumTritCodes = 243;  // 3^5

TFC_HOST_DEVICE inline uint64_t NumTritBytes(uint64_t num_trits) {
  return (num_trits + kTritsPerByte - 1) / kTritsPerByte;
}

// Packs 1 to 5 trits in a byte. The first trit has weight 1.
TFC_HOST_DEVICE inline unsigned char PackTrits(const uint32_t* trits, int num_trits) {
  uint32_t code = 0;
  for (int i = num_trits - 1; i >= 0; --i) code = 3 * code + trits[i];
  return static_cast<unsigned char>(code);
}
TFC_HOST_DEVICE inline uint32_t TritOf(uint32_t code, int position) {
  for (; position > 0; --position) code /= 3;
  return code % 3;
}

// TernGrad's rounding of a value, given the scale s, which is finite, and normal or zero.
struct TernaryScale {
  float scale;

  // Returns the largest magnitude, or `clip` standard deviations if that is less. The deviation is
  // about zero, which is the mean of gradients that TernGrad assumes; it is 0 only if all values
  // are.
  TFC_HOST_DEVICE static TernaryScale Clipped(float largest, double clip, double sum_of_squares,
                                              uint32_t k) {
    constexpr float kLeastNormal = 0x1p-126f;
    const double limit = clip * std::sqrt(sum_of_squares / static_cast<double>(k));
    if (!(limit < largest)) return {largest};
    const float rounded = RoundToNormal(limit);
    return {rounded < kLeastNormal ? kLeastNormal : rounded};
  }

  // Argument of Trit for all values.
  TFC_HOST_DEVICE double StepsPerUnit() const { return scale == 0 ? 0 : kCertain / scale; }
  // Returns the trit of a value: nonzero if the noise is below its share of the scale.
  TFC_HOST_DEVICE static uint32_t Trit(float value, double steps_per_unit, uint32_t noise) {
    const double chance = std::fabs(NormalOrZero(value)) * steps_per_unit;
    const auto threshold = static_cast<int32_t>(chance < kCertain ? chance : kCertain);
    const uint32_t sent = static_cast<int32_t>(noise) < threshold;
    return sent << (FloatBits(value) >> 31);
  }
  TFC_HOST_DEVICE float Value(uint32_t trit) const {
    return trit == 0 ? 0 : trit == 1 ? scale : -scale;
  }

 private:
  static constexpr double kCertain = 1 << RoundingNoise::kBits;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_TRITS_H_
