// The arithmetic of sign: the mean of the values of each sign.
#ifndef TFCOMPRESS_CORE_VALUE_SIGN_MEANS_H_
#define TFCOMPRESS_CORE_VALUE_SIGN_MEANS_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

// The decoded values of the bits 0 and 1: the means of nonnegative (-0 counts as 0) and of negative
// values.
struct SignMeans {
  float of_sign[2];

  TFC_HOST_DEVICE static float Mean(double sum, uint64_t count) {
    return count == 0 ? 0.0f : RoundToNormal(sum / static_cast<double>(count));
  }
  // A term of the sum of a sign. A mask instead of a branch, which signs at random would mispredict
  // half of the time.
  TFC_HOST_DEVICE static double Term(float value, uint32_t sign_bit) {
    const uint32_t bits = FloatBits(value);
    const uint32_t others = 0 - ((bits >> 31) ^ sign_bit);
    return NormalOrZero(FloatFromBits(bits & ~others));
  }
  // Whether means off the wire are valid.
  TFC_HOST_DEVICE bool AreFinite() const {
    return IsFiniteBits(FloatBits(of_sign[0])) && IsFiniteBits(FloatBits(of_sign[1]));
  }
  TFC_HOST_DEVICE bool HaveTheirSigns() const {
    return !IsNegative(of_sign[0]) && OrderedKey(of_sign[1]) <= kZeroKey;
  }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_SIGN_MEANS_H_
