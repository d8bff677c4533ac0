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

  // The exponent of the power of two that is nearest on a logarithmic scale; 0 for 0 and subnormal
  // numbers. Adding the rest to the next power carries into the exponent exactly for mantissas
  // above that of the square root of two, which is no float.
  TFC_HOST_DEVICE static int32_t NearestExponent(float value) {
    constexpr uint32_t kFirstMantissaAboveSqrt2 = 0x3504F4u;
    const uint32_t bits = FloatBits(value) & kFloatMagnitudeBits;
    const uint32_t carried =
        (bits & NormalMask(bits)) + (kLeastNormalBits - kFirstMantissaAboveSqrt2);
    const auto exponent = static_cast<int32_t>(carried >> kMantissaBits);
    return exponent < kLargestExponent ? exponent : kLargestExponent;
  }

  // Whether parameters off the wire are valid.
  TFC_HOST_DEVICE bool IsValid() const {
    return num_bits >= kMinBits && num_bits <= kMaxBits && largest_exponent <= kLargestExponent;
  }

  TFC_HOST_DEVICE uint32_t Code(float value) const {
    const int32_t exponent = NearestExponent(value);
    const int32_t level = exponent - Below();
    const uint32_t sign = (FloatBits(value) >> (32 - num_bits)) & (1u << (num_bits - 1));
    return exponent == 0 || level < 0 ? sign : static_cast<uint32_t>(level) | sign;
  }
  TFC_HOST_DEVICE float Value(uint32_t code) const {
    const auto level = static_cast<int32_t>(code & static_cast<uint32_t>(HighestLevel()));
    const int32_t exponent = Below() + level;
    const auto bits = static_cast<uint32_t>(exponent) << kMantissaBits;
    const float magnitude = level == 0 || exponent <= 0 ? 0 : FloatFromBits(bits);
    return code >> (num_bits - 1) != 0 ? 0 - magnitude : magnitude;
  }

 private:
  TFC_HOST_DEVICE int32_t HighestLevel() const { return (1 << (num_bits - 1)) - 1; }
  TFC_HOST_DEVICE int32_t Below() const { return largest_exponent - HighestLevel(); }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_POWER_OF_TWO_LEVELS_H_
