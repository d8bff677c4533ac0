// The arithmetic of block_int: the scale of a block of values, and conversion between a value and
// its code.
#ifndef TFCOMPRESS_CORE_VALUE_BLOCK_INT_LEVELS_H_
#define TFCOMPRESS_CORE_VALUE_BLOCK_INT_LEVELS_H_

#include <cmath>
#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

// Where the magnitudes of levels are: at k / L of the scale, or at its square, so that small values
// beside large ones are not rounded to zero. Values stand for the numbers of a choice.
enum class LevelSpacing : uint8_t { kEven = 0, kSquare = 1 };

// With 3 bits and more, levels are -L to L, and the scale is the largest magnitude. With 2, where
// zero would leave three levels, they are -1.5, -0.5, 0.5 and 1.5 times the scale, which is the
// root of the mean square.
class BlockIntLevels {
 public:
  static constexpr int kMinBits = 2;
  static constexpr int kMaxBits = 8;
  static constexpr int kMinBlockBits = 4;
  static constexpr int kMaxBlockBits = 10;

  TFC_HOST_DEVICE BlockIntLevels(int num_bits, LevelSpacing spacing)
      : num_bits_(num_bits),
        spacing_(num_bits == kMinBits ? LevelSpacing::kEven : spacing),
        largest_((1 << (num_bits - 1)) - 1) {}

  // From and to the first byte of a section. Parse returns whether it is one.
  TFC_HOST_DEVICE static bool Parse(uint8_t byte, BlockIntLevels* levels) {
    const int num_bits = byte & 0x7F;
    if (num_bits < kMinBits || num_bits > kMaxBits) return false;
    *levels = BlockIntLevels(num_bits, static_cast<LevelSpacing>(byte >> 7));
    return levels->Byte() == byte;  // Four levels are even.
  }
  TFC_HOST_DEVICE uint8_t Byte() const {
    return static_cast<uint8_t>(num_bits_ | static_cast<int>(spacing_) << 7);
  }

  TFC_HOST_DEVICE int num_bits() const { return num_bits_; }
  TFC_HOST_DEVICE LevelSpacing spacing() const { return spacing_; }
  TFC_HOST_DEVICE bool are_square() const { return spacing_ == LevelSpacing::kSquare; }
  // Whether there are four levels and no zero.
  TFC_HOST_DEVICE bool are_four() const { return num_bits_ == kMinBits; }
  // Code of 0, and number of the levels above it, with 3 bits and more.
  TFC_HOST_DEVICE int32_t largest() const { return largest_; }

  // ---- Scales: bfloat16 numbers. One is 0 or in a range, so that neither a step nor its inverse
  // overflows or is subnormal, and no decoded value overflows.

  TFC_HOST_DEVICE static float ScaleValue(uint16_t scale) {
    return FloatFromBits(uint32_t{scale} << 16);
  }
  TFC_HOST_DEVICE static bool IsScale(uint16_t scale) {
    return scale == 0 || (scale >= kLeastScale && scale <= kLargestScale);
  }
  // The next scale that is not below `magnitude`, within the range.
  TFC_HOST_DEVICE static uint16_t ScaleOf(float magnitude) {
    const uint32_t rounded_up = (FloatBits(magnitude) + 0xFFFF) >> 16;
    if (rounded_up < kLeastScale) return 0;
    return static_cast<uint16_t>(rounded_up < kLargestScale ? rounded_up : kLargestScale);
  }
  // A term of the argument of ScaleOfSquares.
  TFC_HOST_DEVICE static double Square(float value) { return double{value} * value; }
  // The scale of four levels from the sum of the squares of `size` values.
  TFC_HOST_DEVICE static uint16_t ScaleOfSquares(double sum, int64_t size) {
    return ScaleOf(static_cast<float>(std::sqrt(sum / static_cast<double>(size))));
  }

  // ---- Codes. A loop calls one of the functions of its kind of levels.

  // Argument of CodeOfEven and CodeOfSquare for all values of a block: by the distance of two even
  // levels, or of zero and the first square.
  TFC_HOST_DEVICE float StepsPerUnit(uint16_t scale) const {
    return scale == 0 ? 0.0f : NumSteps() / ScaleValue(scale);
  }
  TFC_HOST_DEVICE uint32_t CodeOfEven(float value, float steps_per_unit) const {
    return CodeOfLevel(value * steps_per_unit);
  }
  // Halfway between k and k + 1 are k^2 + k + 1/2 steps, and k + 1/2 is the root of 1/4 less.
  TFC_HOST_DEVICE uint32_t CodeOfSquare(float value, float steps_per_unit) const {
    const float steps = std::fabs(value) * steps_per_unit - 0.25f;
    return CodeOfLevel(std::copysign(std::sqrt(steps > 0.0f ? steps : 0.0f), value));
  }
  TFC_HOST_DEVICE static uint32_t CodeOfFour(float value, float scale) {
    return static_cast<uint32_t>(value >= -scale) + static_cast<uint32_t>(value >= 0.0f) +
           static_cast<uint32_t>(value >= scale);
  }
  TFC_HOST_DEVICE uint32_t Code(float value, uint16_t scale) const {
    if (are_four()) return CodeOfFour(value, ScaleValue(scale));
    return are_square() ? CodeOfSquare(value, StepsPerUnit(scale))
                        : CodeOfEven(value, StepsPerUnit(scale));
  }

  // Arguments of the Value functions for all codes of a block: the step as above, and the code of
  // 0.
  TFC_HOST_DEVICE float Step(uint16_t scale) const {
    return ScaleValue(scale) / (are_four() ? 1.0f : NumSteps());
  }
  TFC_HOST_DEVICE float Middle() const { return are_four() ? 1.5f : static_cast<float>(largest_); }
  TFC_HOST_DEVICE static float ValueOfEven(uint32_t code, float middle, float step) {
    // Adding 0 makes -0 +0.
    return LevelOf(code, middle) * step + 0.0f;
  }
  TFC_HOST_DEVICE static float ValueOfSquare(uint32_t code, float middle, float step) {
    const float level = LevelOf(code, middle);
    return level * std::fabs(level) * step + 0.0f;
  }
  TFC_HOST_DEVICE float Value(uint32_t code, uint16_t scale) const {
    return are_square() ? ValueOfSquare(code, Middle(), Step(scale))
                        : ValueOfEven(code, Middle(), Step(scale));
  }

  // ---- Bounds of the error.

  // Half the largest distance of two levels.
  double HalfStep(uint16_t scale) const {
    if (are_four()) return double{ScaleValue(scale)} / 2;
    const double num_steps = are_square() ? 2 * largest_ - 1 : 1;
    return ScaleValue(scale) * num_steps / (2.0 * NumSteps());
  }
  // What the outermost levels stand for: larger magnitudes are clipped.
  double Reach(uint16_t scale) const {
    return ScaleValue(scale) * (are_four() ? 1.5 : 1.0) + HalfStep(scale);
  }

 private:
  // Of the outermost level, with 3 bits and more.
  TFC_HOST_DEVICE float NumSteps() const {
    return static_cast<float>(are_square() ? largest_ * largest_ : largest_);
  }
  // The code of the nearest level, ties to even.
  TFC_HOST_DEVICE uint32_t CodeOfLevel(float level) const {
    const auto limit = static_cast<float>(largest_);
    level = level < limit ? level : limit;
    level = level > -limit ? level : -limit;
    // Adding 1.5 * 2^23 rounds to an integer, ties to even, which is in the lowest bits.
    const uint32_t rounded = FloatBits(level + 0x1.8p23f) - FloatBits(0x1.8p23f);
    return rounded + static_cast<uint32_t>(largest_);
  }
  TFC_HOST_DEVICE static float LevelOf(uint32_t code, float middle) {
    return static_cast<float>(static_cast<int32_t>(code)) - middle;
  }

  static constexpr uint16_t kLeastScale = (127 - 100) << 7;    // 2^-100
  static constexpr uint16_t kLargestScale = (127 + 126) << 7;  // 2^126

  int num_bits_;
  LevelSpacing spacing_;
  int32_t largest_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_BLOCK_INT_LEVELS_H_
