// The arithmetic of uniform: conversion between a value and its code.
#ifndef TFCOMPRESS_CORE_VALUE_FIXED_POINT_H_
#define TFCOMPRESS_CORE_VALUE_FIXED_POINT_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

// Both ends are finite, and normal or zero.
struct ValueRange {
  float least = 0;
  float largest = 0;

  // The range of the values that have these ordered keys.
  TFC_HOST_DEVICE static ValueRange OfKeys(uint32_t least, uint32_t largest) {
    return {RoundToNormal(FloatFromKey(least)), RoundToNormal(FloatFromKey(largest))};
  }
  // Whether ends off the wire are valid; they may be subnormal.
  TFC_HOST_DEVICE bool IsValid() const {
    return IsFiniteBits(FloatBits(least)) && IsFiniteBits(FloatBits(largest)) &&
           OrderedKey(least) <= OrderedKey(largest);
  }
};

// Codes from 0 for the least value to 2^num_bits - 1 for the largest one; 8 or 16 bits.
class FixedPoint {
 public:
  TFC_HOST_DEVICE FixedPoint(const ValueRange& range, int num_bits)
      : least_(range.least),
        largest_(range.largest),
        step_((largest_ - least_) / ((int32_t{1} << num_bits) - 1)),
        codes_per_unit_(step_ == 0 ? 0 : 1 / step_) {}

  TFC_HOST_DEVICE double step() const { return step_; }

  // Code of a value in the range.
  TFC_HOST_DEVICE int32_t CodeOf(float value) const {
    return static_cast<int32_t>((NormalOrZero(value) - least_) * codes_per_unit_ + 0.5);
  }
  TFC_HOST_DEVICE float ValueOf(uint32_t code) const {
    const double value = least_ + static_cast<int32_t>(code) * step_;
    return RoundToNormal(value < largest_ ? value : largest_);
  }

 private:
  double least_;
  double largest_;
  double step_;
  double codes_per_unit_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_FIXED_POINT_H_
