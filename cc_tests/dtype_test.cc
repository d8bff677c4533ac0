#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/hash.h"

namespace tfcompress {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Computes the value of a binary16 by the standard's formula.
double HalfValue(uint16_t half) {
  const int exponent = half >> 10 & 0x1F;
  const int fraction = half & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

TEST(Half, WidensEveryFiniteValueExactly) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7C00) == 0x7C00) continue;
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    ASSERT_EQ(value, HalfValue(static_cast<uint16_t>(half))) << half;
    ASSERT_EQ(std::signbit(value), half >= 0x8000) << half;
    ASSERT_EQ(FloatToHalf(value), half);
  }
}

TEST(Half, RoundsTiesToEvenAndEverythingElseToTheNearest) {
  for (uint16_t half = 0; half < 0x7BFF; ++half) {
    const auto next = static_cast<uint16_t>(half + 1);
    const auto middle = static_cast<float>((HalfValue(half) + HalfValue(next)) / 2);
    ASSERT_EQ(FloatToHalf(middle), half % 2 == 0 ? half : next) << half;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, kInfinity)), next);
    ASSERT_EQ(FloatToHalf(-middle), FloatToHalf(middle) | 0x8000);
  }
}

TEST(Half, OverflowsToInfinityHalfAUnitAboveTheLargest) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::max()), 0xFC00);
  EXPECT_EQ(FloatToHalf(kInfinity), 0x7C00);
  EXPECT_EQ(HalfToFloat(0xFC00), -kInfinity);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Half, KeepsNaN) {
  for (float nan : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::signaling_NaN()}) {
    EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(nan))));
  }
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7C01)));
}

TEST(BFloat16, WidensEveryFiniteValueExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7F80) == 0x7F80) continue;
    const float value = BFloat16ToFloat(static_cast<uint16_t>(bits));
    const uint32_t expected_bits = bits << 16;
    ASSERT_EQ(std::memcmp(&value, &expected_bits, sizeof(value)), 0);
    ASSERT_EQ(FloatToBFloat16(value), bits);
  }
}

TEST(BFloat16, RoundsTiesToEvenAndEverythingElseToTheNearest) {
  for (uint16_t bits = 0; bits < 0x7F7F; ++bits) {
    const auto next = static_cast<uint16_t>(bits + 1);
    const auto middle = static_cast<float>(
        (static_cast<double>(BFloat16ToFloat(bits)) + static_cast<double>(BFloat16ToFloat(next))) /
        2);
    ASSERT_EQ(FloatToBFloat16(middle), bits % 2 == 0 ? bits : next) << bits;
    ASSERT_EQ(FloatToBFloat16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(FloatToBFloat16(std::nextafter(middle, kInfinity)), next);
    ASSERT_EQ(FloatToBFloat16(-middle), FloatToBFloat16(middle) | 0x8000);
  }
}

TEST(BFloat16, KeepsWhatIsNotFinite) {
  EXPECT_EQ(FloatToBFloat16(kInfinity), 0x7F80);
  EXPECT_EQ(FloatToBFloat16(-kInfinity), 0xFF80);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7F80);
  const uint32_t low_payload = 0x7F800001;  // A NaN whose upper half alone would be infinity.
  float nan;
  std::memcpy(&nan, &low_payload, sizeof(nan));
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(nan))));
}

TEST(DType, ConvertsArraysAtAnyAlignmentAndOnAnyExecutor) {
  ThreadExecutor threads(3);
  std::vector<float> values(static_cast<size_t>(2 * kBlockElements + 3));
  Random random(1);
  for (float& value : values) value = random.NextFloat() - 0.5f;
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    std::vector<unsigned char> storage(values.size() * DTypeBytes(dtype) + 1);
    unsigned char* unaligned = storage.data() + 1;
    NarrowFromFloat(values, dtype, &threads, unaligned);
    std::vector<float> widened(values.size());
    WidenToFloat(unaligned, dtype, SerialExecutor(), Span<float>(widened));
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = dtype == DType::kFloat32 ? values[i]
                             : dtype == DType::kFloat16
                                 ? HalfToFloat(FloatToHalf(values[i]))
                                 : BFloat16ToFloat(FloatToBFloat16(values[i]));
      ASSERT_EQ(widened[i], expected) << DTypeName(dtype) << " " << i;
    }
  }
}

TEST(DType, KnowsItsCodes) {
  EXPECT_FALSE(IsDType(0));
  for (uint8_t code = 1; code <= 3; ++code) EXPECT_TRUE(IsDType(code));
  EXPECT_FALSE(IsDType(4));
  EXPECT_STREQ(DTypeName(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(DTypeBytes(DType::kFloat32), 4);
  EXPECT_EQ(DTypeBytes(DType::kFloat16), 2);
}

}  // namespace
}  // namespace tfcompress
