// raw, fp16, bf16, quantile and dexp, beyond what the contract suite asks of each codec.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/dtype.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/registry.h"
#include "core/value/double_exponential.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

using Limits = std::numeric_limits<float>;

// Values of the Laplace distribution.
std::vector<float> LaplaceValues(size_t size) {
  Random random(size);
  std::vector<float> values(size);
  for (float& value : values) {
    value = -std::log((random.NextFloat() + 0x1p-25f));
    if (random.Below(2) == 1) value = -value;
  }
  return values;
}

// The `k` values of largest magnitude, in their order.
std::vector<float> TopK(const std::vector<float>& values, size_t k) {
  std::vector<float> magnitudes(values);
  for (float& value : magnitudes) value = std::fabs(value);
  std::nth_element(magnitudes.begin(), magnitudes.end() - k, magnitudes.end());
  std::vector<float> top;
  for (float value : values) {
    if (std::fabs(value) >= *(magnitudes.end() - k)) top.push_back(value);
  }
  return top;
}

TEST(RawValueTest, KeepsBitsAndRejectsNonFiniteValues) {
  const auto codec = MakePart<ValueCodec>("raw");
  EXPECT_TRUE(std::signbit(RoundTrip(*codec, {-0.0f})[0]));
  for (float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    std::vector<float> decoded(1);
    EXPECT_FALSE(DecodeTo(*codec, MustEncode(*codec, {bad}), &decoded).ok());
  }
}

// Sends all 65,536 codes through Decode and Encode, with lengths that use the scalar code, too.
void CheckAllCodes(const std::string& name, uint16_t exponent_bits, float (*widen)(uint16_t)) {
  const auto codec = MakePart<ValueCodec>(name);
  Bytes section;
  std::vector<float> expected;
  ByteWriter writer(&section);
  for (uint32_t code = 0; code < 65536; ++code) {
    if ((code & exponent_bits) == exponent_bits) {
      Bytes bad;
      ByteWriter(&bad).Write(static_cast<uint16_t>(code));
      std::vector<float> decoded(1);
      ASSERT_EQ(DecodeTo(*codec, bad, &decoded).code(), StatusCode::kDataLoss) << code;
      continue;
    }
    writer.Write(static_cast<uint16_t>(code));
    expected.push_back(widen(static_cast<uint16_t>(code)));
  }
  std::vector<float> decoded(expected.size());
  ASSERT_TRUE(DecodeTo(*codec, section, &decoded).ok());
  EXPECT_EQ(decoded, expected);
  EXPECT_EQ(MustEncode(*codec, decoded), section);
  const Bytes all_but_five(section.begin(), section.end() - 10);
  decoded.resize(decoded.size() - 5);
  EXPECT_EQ(MustEncode(*codec, decoded), all_but_five);
}

TEST(HalfFloatTest, AllFp16CodesRoundTrip) { CheckAllCodes("fp16", 0x7C00, HalfToFloat); }
TEST(HalfFloatTest, AllBf16CodesRoundTrip) { CheckAllCodes("bf16", 0x7F80, BFloat16ToFloat); }

TEST(HalfFloatTest, VectorAndScalarCodeAgree) {
  // A single value takes the scalar path, eight values the vector path. Patterns: every exponent,
  // with the mantissas around each rounding boundary.
  for (const std::string name : {"fp16", "bf16"}) {
    const auto codec = MakePart<ValueCodec>(name);
    for (uint32_t top = 0; top < 65536; top += 16) {
      if ((top << 16 & kFloatInfinityBits) == kFloatInfinityBits) continue;
      const uint32_t first = top << 16;
      std::vector<float> values;
      for (uint32_t low : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x3000u, 0x8000u, 0x18000u}) {
        values.push_back(FloatFromBits(first + low));
      }
      Bytes one_by_one;
      for (float value : values) {
        const Bytes one = MustEncode(*codec, {value});
        one_by_one.insert(one_by_one.end(), one.begin(), one.end());
      }
      ASSERT_EQ(MustEncode(*codec, values), one_by_one) << name << " " << first;
    }
  }
}

TEST(HalfFloatTest, RoundsToNearestEvenAndSaturates) {
  const auto fp16 = MakePart<ValueCodec>("fp16");
  EXPECT_EQ(RoundTrip(*fp16, {1 + 0x1p-11f, 1 + 0x1.8p-10f, 65519.0f, 65520.0f, 1e30f, -1e30f}),
            (std::vector<float>{1, 1 + 0x1p-9f, 65504, 65504, 65504, -65504}));
  const auto bf16 = MakePart<ValueCodec>("bf16");
  EXPECT_EQ(RoundTrip(*bf16, {1 + 0x1p-8f, 1 + 0x1.8p-7f, Limits::max(), Limits::lowest()}),
            (std::vector<float>{1, 1 + 0x1p-6f, 0x1.FEp127f, -0x1.FEp127f}));
}

TEST(QuantileTest, CodesTakeTheBitsOfTheBucketsThatExist) {
  const auto codec = MakePart<ValueCodec>("quantile");
  EXPECT_EQ(MustEncode(*codec, std::vector<float>(1000, 2.5f)).size(), 8u);
  EXPECT_EQ(MustEncode(*codec, {1, 2, 3, 4, 4, 3, 2, 1}).size(), 4u + 16u + 2u);
  EXPECT_EQ(MustEncode(*codec, NormalValues(10000, 10000)).size(), 4u + 1024u + 10000u);
}

TEST(QuantileTest, ErrorIsThatOfEqualMassBuckets) {
  const auto codec = MakePart<ValueCodec>("quantile");
  const std::vector<float> values = NormalValues(100000, 100000);
  EXPECT_LT(RelativeError(values, RoundTrip(*codec, values)), 0.03);
}

TEST(QuantileTest, RejectsCodesOfNoBucketAndBadMeans) {
  const auto codec = MakePart<ValueCodec>("quantile");
  Bytes section = MustEncode(*codec, {1, 2, 3, 1, 2});
  ASSERT_EQ(section.size(), 4u + 12u + 2u);
  std::vector<float> decoded(5);
  Bytes bad_code = section;
  bad_code[16] |= 3;
  EXPECT_EQ(DecodeTo(*codec, bad_code, &decoded).code(), StatusCode::kDataLoss);
  Bytes bad_mean = section;
  StoreUnaligned(&bad_mean[8], Limits::infinity());
  EXPECT_EQ(DecodeTo(*codec, bad_mean, &decoded).code(), StatusCode::kDataLoss);
  Bytes no_bucket = section;
  StoreUnaligned<uint32_t>(&no_bucket[0], 0);
  EXPECT_EQ(DecodeTo(*codec, no_bucket, &decoded).code(), StatusCode::kDataLoss);
}

std::vector<CurvePoint> Curve(double a, double b, double c, double d, size_t size) {
  std::vector<CurvePoint> points;
  for (size_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(size - 1);
    points.push_back({x, a * std::exp(b * x) + c * std::exp(d * x), 1.0});
  }
  return points;
}

double CurveError(const std::vector<CurvePoint>& points, const DoubleExponential& fit) {
  double error = 0;
  for (const CurvePoint& point : points) {
    const double y = fit.a * DoubleExponential::Term(fit.b * point.x) +
                     fit.c * DoubleExponential::Term(fit.d * point.x);
    error = std::max(error, std::fabs(y - point.y));
  }
  return error;
}

TEST(DoubleExponentialTest, FindsDoubleExponentials) {
  for (const auto& [a, b, c, d] : std::vector<std::array<double, 4>>{{0.5, -30, 0.5, -0.7},
                                                                     {0.3, -3, 0.7, -0.1},
                                                                     {0.9, -500, 0.1, -1},
                                                                     {0.6, -7, 0.2, 0.5},
                                                                     {1.0, -2, -0.001, 6},
                                                                     {0.5, -6, 0.5, -4}}) {
    const std::vector<CurvePoint> points = Curve(a, b, c, d, 500);
    EXPECT_LT(CurveError(points, FitDoubleExponential(points)), 2e-6)
        << a << " e^" << b << "x + " << c << " e^" << d << "x";
  }
}

TEST(DoubleExponentialTest, FitsDegenerateCurves) {
  const std::vector<CurvePoint> single = Curve(1, -5, 0, 0, 300);
  EXPECT_LT(CurveError(single, FitDoubleExponential(single)), 1e-6);
  const std::vector<CurvePoint> constant = Curve(1, 0, 0, 0, 300);
  EXPECT_LT(CurveError(constant, FitDoubleExponential(constant)), 1e-6);
  const std::vector<CurvePoint> two = {{0, 1, 1}, {1, 0.25, 1}};
  EXPECT_LT(CurveError(two, FitDoubleExponential(two)), 1e-6);
  const std::vector<CurvePoint> line = {{0, 1, 1}, {0.25, 0.75, 1}, {0.5, 0.5, 1}, {1, 0, 1}};
  EXPECT_LT(CurveError(line, FitDoubleExponential(line)), 1e-2);
  EXPECT_EQ(FitDoubleExponential({}).a, 0);
  const std::vector<CurvePoint> one = {{0, 1, 1}};
  EXPECT_TRUE(std::isfinite(FitDoubleExponential(one).a));
}

TEST(DexpTest, FindsADoubleExponential) {
  std::vector<float> values(20000);
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i * 7919 % 20000) / 19999;
    values[i] = static_cast<float>(0.02 * std::exp(-40 * x) + 0.01 * std::exp(-0.5 * x));
    if (i % 3 == 0) values[i] *= -1;
  }
  // Not zero, since the curve is fitted to means of up to 3 % of the values.
  EXPECT_LT(RelativeError(values, RoundTrip(*MakePart<ValueCodec>("dexp"), values)), 1e-3);
}

TEST(DexpTest, FollowsTheTopOfUsualDistributions) {
  const auto codec = MakePart<ValueCodec>("dexp");
  const std::vector<float> bell = TopK(NormalValues(200000, 200000), 2000);
  EXPECT_LT(RelativeError(bell, RoundTrip(*codec, bell)), 0.03);
  const std::vector<float> laplace = TopK(LaplaceValues(200000), 2000);
  EXPECT_LT(RelativeError(laplace, RoundTrip(*codec, laplace)), 0.04);
}

TEST(DexpTest, TakesTheBitsOfAPermutation) {
  const auto codec = MakePart<ValueCodec>("dexp");
  EXPECT_EQ(MustEncode(*codec, {}).size(), 8u);
  EXPECT_EQ(MustEncode(*codec, {1.0f}).size(), 4u + 28u);
  EXPECT_EQ(MustEncode(*codec, NormalValues(1000, 1000)).size(), 56u + 1250u);
}

TEST(DexpTest, RejectsRanksCountsAndRanges) {
  const auto codec = MakePart<ValueCodec>("dexp");
  const Bytes section = MustEncode(*codec, {3, 2, -1, -5, -4});
  ASSERT_EQ(section.size(), 56u + 2u);
  std::vector<float> decoded(5);
  ASSERT_TRUE(DecodeTo(*codec, section, &decoded).ok());
  const auto is_rejected = [&](size_t offset, auto value) {
    Bytes bad = section;
    StoreUnaligned(&bad[offset], value);
    return DecodeTo(*codec, bad, &decoded).code() == StatusCode::kDataLoss;
  };
  EXPECT_TRUE(is_rejected(0, uint32_t{1}));  // Counts that do not sum to k.
  EXPECT_TRUE(is_rejected(0, uint32_t{6}));
  EXPECT_TRUE(is_rejected(4, Limits::quiet_NaN()));
  EXPECT_TRUE(is_rejected(20, 3.5f));  // The least magnitude above the largest.
  EXPECT_TRUE(is_rejected(20, -1.0f));
  EXPECT_TRUE(is_rejected(24, -1.0f));
  EXPECT_TRUE(is_rejected(56, uint8_t{0x3F}));  // Rank 7 of 5.
}

}  // namespace
}  // namespace tfcompress
