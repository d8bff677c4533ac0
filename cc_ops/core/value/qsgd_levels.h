// The arithmetic of qsgd: conversion between a value and its code, a sign bit above the level.
#ifndef TFCOMPRESS_CORE_VALUE_QSGD_LEVELS_H_
#define TFCOMPRESS_CORE_VALUE_QSGD_LEVELS_H_

#include <cmath>
#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/value/rounding_noise.h"

namespace tfcompress {

// Levels are 0 to largest(), which stands for the norm of a bucket.
class QsgdLevels {
 public:
  static constexpr int kMinBits = 2;
  static constexpr int kMaxBits = 8;

  TFC_HOST_DEVICE explicit QsgdLevels(int num_bits)
      : sign_shift_(num_bits - 1), largest_((int32_t{1} << sign_shift_) - 1) {}

  TFC_HOST_DEVICE int num_bits() const { return sign_shift_ + 1; }
  TFC_HOST_DEVICE int32_t largest() const { return largest_; }

  // Returns the norm of a bucket from its sum of squares. It is at least the largest magnitude,
  // since every step rounds monotonically.
  TFC_HOST_DEVICE static float Norm(double sum_of_squares) {
    constexpr double kLargestFloat = 0x1.FFFFFEp127;
    const double norm = std::sqrt(sum_of_squares);
    return static_cast<float>(norm < kLargestFloat ? norm : kLargestFloat);
  }

  // Argument of Code for all values of a bucket.
  TFC_HOST_DEVICE double StepsPerUnit(float norm) const {
    return norm == 0 ? 0 : static_cast<double>(largest_ << RoundingNoise::kBits) / norm;
  }
  // Returns the code of a value, rounded up if the noise carries.
  TFC_HOST_DEVICE uint32_t Code(float value, double steps_per_unit, uint32_t noise) const {
    const double steps = std::fabs(NormalOrZero(value)) * steps_per_unit;
    const uint32_t level =
        (static_cast<uint32_t>(static_cast<int32_t>(steps)) + noise) >> RoundingNoise::kBits;
    return level | (FloatBits(value) >> 31 << sign_shift_);
  }

  // Argument of Value for all codes of a bucket.
  TFC_HOST_DEVICE double Unit(float norm) const { return NormalOrZero(norm) / largest_; }
  TFC_HOST_DEVICE float Value(uint32_t code, double unit) const {
    const auto magnitude = static_cast<int32_t>(code & static_cast<uint32_t>(largest_));
    const auto sign = -static_cast<int32_t>(code >> sign_shift_);  // All bits, or none.
    return RoundToNormal(((magnitude ^ sign) - sign) * unit);
  }

 private:
  int sign_shift_;
  int32_t largest_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_QSGD_LEVELS_H_
