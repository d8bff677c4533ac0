// The arithmetic of `threelc`, shared with devices: three values, five of which make a byte, and
// runs of zeros (3LC, section 3).
#ifndef TFCOMPRESS_CORE_JOINT_QUARTIC_H_
#define TFCOMPRESS_CORE_JOINT_QUARTIC_H_

#include <cstdint>

#include "core/executor.h"
#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr int kQuarticDigits = 5;
inline constexpr unsigned char kFiveZeros = 121;
// Bytes from this one on are runs of 2 to kMaxZeroRun bytes of five zeros.
inline constexpr unsigned char kRunOfTwo = 243;
inline constexpr int64_t kMaxZeroRun = 14;
// Quartic bytes of a block; a run of zeros does not extend into the next block.
inline constexpr int64_t kQuarticBlock = kBlockElements;

TFC_HOST_DEVICE inline int64_t NumQuarticBytes(uint32_t n) {
  return (int64_t{n} + kQuarticDigits - 1) / kQuarticDigits;
}

// Weight of digit i of a quartic byte.
TFC_HOST_DEVICE constexpr int QuarticPower(int i) {
  return i == 0 ? 81 : i == 1 ? 27 : i == 2 ? 9 : i == 3 ? 3 : 1;
}
// Digit i, -1, 0 or 1, of a byte that is not a run.
TFC_HOST_DEVICE inline int QuarticDigit(int byte, int i) { return byte / QuarticPower(i) % 3 - 1; }

// The byte that stands for a run of 1 to kMaxZeroRun bytes of five zeros.
TFC_HOST_DEVICE inline unsigned char ZeroRunCode(int64_t length) {
  return static_cast<unsigned char>(length == 1 ? kFiveZeros : kRunOfTwo + length - 2);
}
// Number of quartic bytes that a coded byte stands for.
TFC_HOST_DEVICE inline int NumQuarticBytesOf(int coded) {
  return coded < kRunOfTwo ? 1 : coded - kRunOfTwo + 2;
}
// Number of digits of a coded byte that are not 0.
TFC_HOST_DEVICE inline int NumNonzeroDigits(int coded) {
  int count = 0;
  if (coded >= kRunOfTwo) return count;
  for (int i = 0; i < kQuarticDigits; ++i) count += QuarticDigit(coded, i) != 0;
  return count;
}

// Quantization of values: to `scale` with their sign if their magnitude is at least half of it,
// else to 0.
struct ThreeValues {
  // Makes it from the bits of the greatest magnitude. Subnormal numbers count as zeros.
  TFC_HOST_DEVICE static ThreeValues Of(uint32_t largest_bits, double multiplier) {
    ThreeValues values;
    if (largest_bits < kLeastNormalBits) return values;
    const double product = FloatFromBits(largest_bits) * multiplier;
    const double limit = FloatFromBits(kFloatInfinityBits - 1);
    values.scale = static_cast<float>(product < limit ? product : limit);
    const uint32_t half_bits = FloatBits(values.scale) - kLeastNormalBits;  // One exponent less.
    values.threshold_bits = half_bits > kLeastNormalBits ? half_bits : kLeastNormalBits;
    return values;
  }

  TFC_HOST_DEVICE bool IsSent(float value) const {
    return (FloatBits(value) & kFloatMagnitudeBits) >= threshold_bits;
  }
  // -1, 0 or 1.
  TFC_HOST_DEVICE int Digit(float value) const {
    return IsSent(value) ? (IsNegative(value) ? -1 : 1) : 0;
  }

  float scale = 0;
  uint32_t threshold_bits = kFloatInfinityBits;
};

// Decoded value of a digit that is not 0.
TFC_HOST_DEVICE inline float ThreeValueOf(float scale, int digit) {
  return FloatFromBits(FloatBits(scale) | (digit < 0 ? kFloatSignBit : 0));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_JOINT_QUARTIC_H_
