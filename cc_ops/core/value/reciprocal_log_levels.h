// The arithmetic of log: what a section says of its levels, and what stands at each of them.
#ifndef TFCOMPRESS_CORE_VALUE_RECIPROCAL_LOG_LEVELS_H_
#define TFCOMPRESS_CORE_VALUE_RECIPROCAL_LOG_LEVELS_H_

#include <cstdint>

#include "core/codec.h"
#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

// The levels of the logarithms `first` and those that follow, descending.
struct LogScale {
  static constexpr double kMinBase = 1.001;  // Neighbouring levels differ as floats.
  static constexpr double kMaxBase = 16;
  static constexpr uint64_t kNumBytes = 20;  // Of a section, before the codes.

  // The filter that adapts, tau = 0, keeps what the paper's tau does, and what reaches the mean
  // magnitude of `count` values: the least L with b^L >= count. A fixed tau keeps at most b^tau
  // values, and of a large vector without heavy tails none.
  static constexpr uint32_t kPaperTau = 128;
  TFC_HOST_DEVICE static uint32_t AdaptedTau(double base, uint64_t count) {
    uint32_t tau = 0;
    for (double power = 1; power < static_cast<double>(count); power *= base) ++tau;
    return tau > kPaperTau ? tau : kPaperTau;
  }

  double base = kMaxBase;
  double sum = 0;           // Of the magnitudes.
  uint16_t first = 0;       // The least L.
  uint16_t num_levels = 0;  // Of `first` and the L that follow.

  // Whether a section may begin so; written so that NaN fails.
  TFC_HOST_DEVICE bool IsValid() const {
    return base >= kMinBase && base <= kMaxBase && sum >= 0 && sum <= kMaxElements * 0x1p128;
  }
  // The magnitude of an L from base^L, the product of L factors one after the other.
  TFC_HOST_DEVICE float Level(double power) const { return RoundDown(sum / power); }

  // Codes: 0 is the value 0, 1 + 2 i and 2 + 2 i are level i and its negative.
  TFC_HOST_DEVICE uint32_t NumCodes() const { return 2 * uint32_t{num_levels} + 1; }
  TFC_HOST_DEVICE static uint32_t Code(uint32_t level, float value) {
    return 1 + 2 * level + (FloatBits(value) >> 31);
  }
  // Of a code that is not 0; a level of 0 has no sign.
  TFC_HOST_DEVICE static float Value(uint32_t code, float level) {
    return code % 2 == 1 ? level : 0 - level;
  }

 private:
  // The largest float that is not above y >= 0; 0 where that would be subnormal, infinity for a y
  // that no float reaches.
  TFC_HOST_DEVICE static float RoundDown(double y) {
    if (y < 0x1p-126) return 0;
    if (y >= 0x1p128) return FloatFromBits(kFloatInfinityBits);
    const auto rounded = static_cast<float>(y);
    return double{rounded} <= y ? rounded : FloatFromBits(FloatBits(rounded) - 1);
  }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_RECIPROCAL_LOG_LEVELS_H_
