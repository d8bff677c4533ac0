// The arithmetic of logquant between a value and its code: the sign above the level.
#ifndef TFCOMPRESS_CORE_VALUE_POWER_OF_TWO_LEVELS_H_
#define TFCOMPRESS_CORE_VALUE_POWER_OF_TWO_LEVELS_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

// Level 0 is zero, level l > 0 the magnitude of exponent `Below() + l`. Exponents are biased: of
// 2^(e - 127).
struct PowerLevels {
  static constexpr int kMinBits = 2;
  static constexpr int kMaxBits = 8;
  static constexpr int kMantissaBits = 23;
  static constexpr int32_t kLargestExponent = 254;

  int num_bits;
  int32_t largest_exponent;  // Exponent of the highest level.

  // Added to a mantissa, it carries into the exponent exactly for those of and above the square
  // root of two, which is no float: the power of two that is nearest on a logarithmic scale.
  static constexpr uint32_t kNearest = kLeastNormalBits - 0x3504F4u;
  // Carries for all mantissas but 0.
  static constexpr uint32_t kUp = kLeastNormalBits - 1;

  // The exponent of the power of two below a value or the next one, which the carry decides; 0 for
  // 0 and subnormal numbers. A carry uniform in [0, 2^23) gives powers with the value as their
  // mean.
  TFC_HOST_DEVICE static int32_t Exponent(float value, uint32_t carry) {
    const uint32_t bits = MagnitudeBits(value);
    const uint32_t carried = (bits & NormalMask(bits)) + carry;
    const auto exponent = static_cast<int32_t>(carried >> kMantissaBits);
    return exponent < kLargestExponent ? exponent : kLargestExponent;
  }

  // Whether parameters off the wire are valid.
  TFC_HOST_DEVICE bool IsValid() const {
    return num_bits >= kMinBits && num_bits <= kMaxBits && largest_exponent <= kLargestExponent;
  }

  TFC_HOST_DEVICE uint32_t Code(float value) const {
    const int32_t exponent = Exponent(value, kNearest);
    const int32_t level = exponent - Below();
    return SignOf(value) | (exponent == 0 || level < 0 ? 0 : static_cast<uint32_t>(level));
  }
  // One of the two levels around a value by chance, so that their mean is the value; `noise` is
  // uniform in [0, 2^24). Values above the highest level become that.
  TFC_HOST_DEVICE uint32_t RandomCode(float value, uint32_t noise) const {
    const uint32_t bits = MagnitudeBits(value);
    const auto exponent = static_cast<int32_t>(bits >> kMantissaBits);
    const int32_t lowest = Below() + 1;
    if (exponent == 0) return SignOf(value);
    if (exponent >= lowest)
      return SignOf(value) | static_cast<uint32_t>(Exponent(value, noise >> 1) - Below());
    // The value by the lowest level, in 2^-24.
    const int32_t shift = lowest - exponent - 1;
    const uint32_t significand = (bits & (kLeastNormalBits - 1)) | kLeastNormalBits;
    return SignOf(value) | (shift <= kMantissaBits && noise < significand >> shift);
  }
  TFC_HOST_DEVICE float Value(uint32_t code) const {
    const auto level = static_cast<int32_t>(code & static_cast<uint32_t>(HighestLevel()));
    const int32_t exponent = Below() + level;
    const auto bits = static_cast<uint32_t>(exponent) << kMantissaBits;
    const float magnitude = level == 0 || exponent <= 0 ? 0 : FloatFromBits(bits);
    return code >> (num_bits - 1) != 0 ? 0 - magnitude : magnitude;
  }

 private:
  TFC_HOST_DEVICE uint32_t SignOf(float value) const {
    return (FloatBits(value) >> (32 - num_bits)) & (1u << (num_bits - 1));
  }
  TFC_HOST_DEVICE int32_t HighestLevel() const { return (1 << (num_bits - 1)) - 1; }
  TFC_HOST_DEVICE int32_t Below() const { return largest_exponent - HighestLevel(); }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_POWER_OF_TWO_LEVELS_H_
