// log (FastSGD 3.2) and logquant, the codec that FastSGD compares it with.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "core/float_order.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

using Limits = std::numeric_limits<float>;

constexpr size_t kLogHeaderBytes = 20;

std::unique_ptr<const ValueCodec> Log(const std::string& base, const std::string& tau = "128") {
  return MakePart<ValueCodec>("log", {{"base", base}, {"tau", tau}});
}

double SumOfMagnitudes(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += std::fabs(double{value});
  return sum;
}

// Figure 2: the reciprocal value 6.1 becomes 3 at base 2.
TEST(LogTest, Figure2) {
  const std::vector<float> values = {1.0f, 5.1f};  // 6.1 is the reciprocal of the first.
  const std::vector<float> decoded = RoundTrip(*Log("2"), values);
  EXPECT_FLOAT_EQ(decoded[0], static_cast<float>(6.1 / 8));  // L = 3
  EXPECT_FLOAT_EQ(decoded[1], static_cast<float>(6.1 / 2));  // L = 1
}

TEST(LogTest, PowersOfTheBaseAreExact) {
  const std::vector<float> values = {0.5f, -0.25f, 0.125f, -0.125f};
  EXPECT_EQ(RoundTrip(*Log("2"), values), values);
  EXPECT_EQ(RoundTrip(*Log("1.1"), {-3.7f}), (std::vector<float>{-3.7f}));  // L = 0
}

// Algorithm 1, with the C library's logarithm; its ceilings are not trusted next to a whole number.
TEST(LogTest, FollowsAlgorithm1) {
  for (const double base : {1.02, 1.1, 2.0, 10.0}) {
    const std::vector<float> values = Gradient(5000, 15);
    const auto codec = Log(std::to_string(base), "128");
    const std::vector<float> decoded = RoundTrip(*codec, values);
    const double sum = SumOfMagnitudes(values);
    int num_filtered = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) {
        ASSERT_EQ(decoded[i], 0);
        continue;
      }
      const double logarithm = std::log(sum / std::fabs(double{values[i]})) / std::log(base);
      if (std::fabs(logarithm - std::round(logarithm)) < 1e-9) continue;
      const double code = std::ceil(logarithm);
      const double expected = code > 128 ? 0 : sum / std::pow(base, code);
      num_filtered += code > 128;
      ASSERT_NEAR(decoded[i], std::copysign(expected, values[i]), 1e-6 * expected) << values[i];
    }
    EXPECT_EQ(num_filtered > 0, base < 1.2) << base;
  }
}

TEST(LogTest, NeverOverestimates) {
  for (const std::string base : {"1.001", "1.1", "2", "16"}) {
    const auto codec = Log(base, "32767");
    for (const ValueCase& input : ValueCases()) {
      SCOPED_TRACE(base + ", " + input.name);
      const std::vector<float> decoded = RoundTrip(*codec, input.values);
      const double sum = SumOfMagnitudes(input.values);
      for (size_t i = 0; i < decoded.size(); ++i) {
        const double magnitude = std::fabs(double{input.values[i]});
        ASSERT_LE(std::fabs(double{decoded[i]}), magnitude);
        ASSERT_FALSE(decoded[i] != 0 && std::signbit(decoded[i]) != std::signbit(input.values[i]));
        // No more than a factor of the base below, where neither tau nor the least normal number
        // cuts off.
        if (magnitude < std::max(0x1p-120, sum / std::pow(std::stod(base), 32766))) continue;
        ASSERT_GE(std::fabs(double{decoded[i]}), magnitude / std::stod(base) * (1 - 1e-6));
      }
    }
  }
}

TEST(LogTest, FiltersBeyondTau) {
  const std::vector<float> values = {16, -8, 4, -2, 1, -0.5f, 0.25f, 0.25f};  // They sum to |32|.
  EXPECT_EQ(RoundTrip(*Log("2", "3"), values), (std::vector<float>{16, -8, 4, 0, 0, 0, 0, 0}));
  EXPECT_EQ(RoundTrip(*Log("2", "5"), values), (std::vector<float>{16, -8, 4, -2, 1, 0, 0, 0}));
}

TEST(LogTest, NothingIsLeftWhenAllLieBeyondTau) {
  const std::vector<float> values(1000, 1.0f);
  const auto codec = Log("2", "9");  // log2 of 1000 is 9.97.
  EXPECT_EQ(MustEncode(*codec, values).size(), kLogHeaderBytes);
  EXPECT_EQ(RoundTrip(*codec, values), std::vector<float>(1000));
  EXPECT_EQ(RoundTrip(*Log("2", "10"), values), std::vector<float>(1000, 1000.0f / 1024));
}

// The indices of which values are sent.
std::vector<uint32_t> Kept(const ValueCodec& codec, const std::vector<float>& dense,
                           const std::vector<uint32_t>& indices) {
  std::vector<float> values;
  for (uint32_t index : indices) values.push_back(dense[index]);
  const float least = codec.LeastSent(values, SerialExecutor());
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::fabs(values[i]) >= least) kept.push_back(indices[i]);
  }
  return kept;
}

TEST(LogTest, WhatIsNotSentDecodesToZero) {
  const std::vector<float> dense = Gradient(20000, 16);
  std::vector<uint32_t> all;
  std::vector<float> values;
  for (uint32_t i = 0; i < dense.size(); i += 1 + i % 3) {
    all.push_back(i);
    values.push_back(dense[i]);
  }
  const auto codec = MakePart<ValueCodec>("log");
  const std::vector<uint32_t> kept = Kept(*codec, dense, all);
  std::vector<uint32_t> expected;
  const std::vector<float> decoded = RoundTrip(*codec, values);
  for (size_t i = 0; i < all.size(); ++i) {
    if (decoded[i] != 0) expected.push_back(all[i]);
  }
  EXPECT_EQ(kept, expected);
  ASSERT_LT(kept.size(), all.size());
  std::vector<float> kept_values;
  for (uint32_t index : kept) kept_values.push_back(dense[index]);
  for (float value : RoundTrip(*codec, kept_values)) EXPECT_NE(value, 0);
  EXPECT_TRUE(Kept(*codec, dense, {}).empty());
}

// A vector without heavy tails, at every size: the filter that adapts keeps the mean and what is
// above.
TEST(LogTest, TheFilterThatAdaptsKeepsTheMean) {
  const auto codec = Log("1.1", "0");
  for (const size_t n : {1000, 300000, 1000000}) {
    SCOPED_TRACE(n);
    const std::vector<float> dense = NormalValues(n, 18);
    std::vector<uint32_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<uint32_t> kept = Kept(*codec, dense, all);
    const double mean = SumOfMagnitudes(dense) / static_cast<double>(n);
    size_t next = 0;
    std::vector<float> values;
    for (uint32_t i = 0; i < n; ++i) {
      const bool is_kept = next < kept.size() && kept[next] == i;
      ASSERT_TRUE(is_kept || std::fabs(double{dense[i]}) < mean) << dense[i];
      if (!is_kept) continue;
      values.push_back(dense[i]);
      ++next;
    }
    EXPECT_EQ(kept.size() < n / 2, n > 200000);
    // Nothing is filtered a second time.
    for (float value : RoundTrip(*codec, values)) ASSERT_NE(value, 0);
  }
}

TEST(LogTest, AByteAValueUnderTheDefaults) {
  EXPECT_LE(MustEncode(*MakePart<ValueCodec>("log"), NormalValues(1000, 17)).size(),
            kLogHeaderBytes + 1000);
}

// The example of FORMAT.md.
TEST(LogTest, Example) {
  const Bytes expected = {0, 0, 0, 0,    0,    0, 0x00, 0x40, 0, 0,    0,
                          0, 0, 0, 0x20, 0x40, 1, 0,    3,    0, 0x53, 0x0B};
  const std::vector<float> values = {2, -4, 1, 1, 0};
  EXPECT_EQ(MustEncode(*Log("2", "3"), values), expected);
  EXPECT_EQ(MustDecode(*Log("2", "3"), expected, 5), values);
}

TEST(LogTest, RejectsBadScalesAndCodes) {
  const auto codec = Log("2", "3");
  const Bytes section = MustEncode(*codec, {2, -4, 1, 1, 0});
  const auto is_rejected = [&](size_t offset, auto value) {
    Bytes bad = section;
    StoreUnaligned(&bad[offset], value);
    return IsDataLoss(*codec, bad, 5);
  };
  for (double base : {1.0, -2.0, 0.0, 17.0, std::nan("")}) EXPECT_TRUE(is_rejected(0, base));
  for (double sum : {-1.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(is_rejected(8, sum));
  }
  EXPECT_TRUE(is_rejected(18, uint16_t{4}));
  EXPECT_TRUE(is_rejected(20, uint8_t{0x3F}));  // Code 7 of 7.
}

std::unique_ptr<const ValueCodec> LogQuant(const std::string& bits = "8",
                                           const std::string& rounding = "nearest") {
  return MakePart<ValueCodec>("logquant", {{"bits", bits}, {"rounding", rounding}});
}

TEST(LogQuantTest, RoundsAtTheSquareRootOfTwo) {
  const float below = FloatFromBits(0x3FB504F3);  // Neighbours, the square root between them.
  const float above = FloatFromBits(0x3FB504F4);
  ASSERT_TRUE(double{below} * below < 2 && double{above} * above > 2);
  EXPECT_EQ(RoundTrip(*LogQuant(), {below, -below, above, -above, 3.0f, 2.5f}),
            (std::vector<float>{1, -1, 2, -2, 4, 2}));
}

TEST(LogQuantTest, RelativeErrorIsBounded) {
  const std::vector<float> values = NormalValues(10000, 18);
  const std::vector<float> decoded = RoundTrip(*LogQuant(), values);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::fabs(double{decoded[i]} - values[i]), 0.41422 * std::fabs(values[i]));
  }
}

TEST(LogQuantTest, RandomRoundingIsUnbiased) {
  for (const char* bits : {"8", "3"}) {
    // Powers of two among them, and with 3 bits, whose levels are 8, 4, 2 and 0, what is below 2.
    const std::vector<float> values = {7.5f, -7.5f, 5, 4, -3, 2.25f, 1.5f, -1, 0.125f};
    const auto codec = LogQuant(bits, "random");
    std::vector<double> steps;
    for (const float value : values) {
      int exponent;
      std::frexp(value, &exponent);
      const double power = std::ldexp(0.5, exponent);
      steps.push_back(bits[0] == '3' ? std::max(power, 2.0) : power);
    }
    ExpectUnbiased(*codec, values, steps);
  }
}

TEST(LogQuantTest, RandomRoundingEndsAtTheLargestPower) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(RoundTrip(*LogQuant("8", "random"), {Limits::max(), Limits::lowest()}, seed),
              (std::vector<float>{0x1p127f, -0x1p127f}));
    EXPECT_EQ(RoundTrip(*LogQuant("8", "random"), {Limits::min(), Limits::denorm_min()}, seed),
              (std::vector<float>{Limits::min(), 0}));
  }
}

TEST(LogQuantTest, SendsTheHighestLevels) {
  const std::vector<float> values = {8, -4, 2, 1, -0.5f, 0};
  EXPECT_EQ(RoundTrip(*LogQuant("2"), values), (std::vector<float>{8, 0, 0, 0, 0, 0}));
  EXPECT_EQ(RoundTrip(*LogQuant("3"), values), (std::vector<float>{8, -4, 2, 0, 0, 0}));
  EXPECT_EQ(RoundTrip(*LogQuant("4"), values), values);
}

TEST(LogQuantTest, EndsOfTheRange) {
  EXPECT_EQ(RoundTrip(*LogQuant(), {Limits::max(), Limits::lowest()}),
            (std::vector<float>{0x1p127f, -0x1p127f}));
  EXPECT_EQ(RoundTrip(*LogQuant(), {Limits::min(), -Limits::min(), Limits::denorm_min()}),
            (std::vector<float>{Limits::min(), -Limits::min(), 0}));
}

// The example of FORMAT.md.
TEST(LogQuantTest, Example) {
  const Bytes expected = {0x04, 0x82, 0xE7, 0x00};
  const std::vector<float> values = {8, -4, 0};
  EXPECT_EQ(MustEncode(*LogQuant("4"), values), expected);
  EXPECT_EQ(MustDecode(*LogQuant(), expected, 3), values);
}

TEST(LogQuantTest, RejectsBadHeaders) {
  for (const Bytes& bad : {Bytes{1, 127, 0}, Bytes{9, 127, 0, 0}, Bytes{8, 255, 0}}) {
    EXPECT_TRUE(IsDataLoss(*LogQuant(), bad, 1));
  }
}

}  // namespace
}  // namespace tfcompress
