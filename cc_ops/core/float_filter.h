// Listing the floats of a chunk whose bits are in a range, in the widest instructions at hand.
#ifndef TFCOMPRESS_CORE_FLOAT_FILTER_H_
#define TFCOMPRESS_CORE_FLOAT_FILTER_H_

#include <cstdint>

#include "core/float_order.h"

namespace tfcompress {

class FloatFilter {
 public:
  // Elements with |x| >= y, where `magnitude` are the bits of y; all elements for 0.
  static FloatFilter AtLeast(uint32_t magnitude) { return {kFloatMagnitudeBits, 0, magnitude}; }
  // Elements that are negative, or that are not (-0 is not).
  static FloatFilter OfSign(uint32_t sign) {
    // Numbers that are not negative: bits 0 to 2^31, which are moved to the end of all.
    constexpr uint32_t kRest = kFloatSignBit - 1;
    return sign == 0 ? FloatFilter{~0u, kRest, kRest} : FloatFilter{~0u, 0, kFloatSignBit + 1};
  }

  // Lists the i in [0, size) whose element passes, as first + i and values[i], and returns their
  // number. May store more, within `size` elements.
  int64_t operator()(const float* values, int64_t size, uint32_t first, uint32_t* found,
                     float* found_values) const;

  uint32_t Shifted(float value) const { return (FloatBits(value) & mask) + shift; }
  bool Passes(float value) const { return Shifted(value) >= least; }

  // An element passes if its bits, masked and shifted modulo 2^32, are not below `least`.
  uint32_t mask;
  uint32_t shift;
  uint32_t least;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FLOAT_FILTER_H_
