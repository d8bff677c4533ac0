// sign: one bit per value; each sign decodes to its mean.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

std::unique_ptr<const ValueCodec> Sign() { return MakePart<ValueCodec>("sign"); }

// The example of FORMAT.md: zeros, of either sign, are not negative.
TEST(SignTest, Example) {
  const Bytes expected = {0, 0, 0x80, 0x3F, 0, 0, 0xA0, 0xC0, 0x0C};
  EXPECT_EQ(MustEncode(*Sign(), {2, 0, -4, -6, 1, -0.0f, 2}), expected);
  EXPECT_EQ(MustDecode(*Sign(), expected, 7), (std::vector<float>{1, 1, -5, -5, 1, 1, 1}));
}

TEST(SignTest, TakesOneBitAValue) {
  EXPECT_EQ(MustEncode(*Sign(), NormalValues(80000, 13)).size(), 8u + 10000u);
}

TEST(SignTest, KeepsTheSumOfEachSign) {
  const std::vector<float> values = NormalValues(100000, 14);
  const std::vector<float> decoded = RoundTrip(*Sign(), values);
  double sums[2] = {}, decoded_sums[2] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i] < 0, decoded[i] < 0);
    sums[values[i] < 0] += values[i];
    decoded_sums[values[i] < 0] += decoded[i];
  }
  EXPECT_NEAR(decoded_sums[0], sums[0], 1e-6 * sums[0]);
  EXPECT_NEAR(decoded_sums[1], sums[1], -1e-6 * sums[1]);
}

TEST(SignTest, OneSignAlone) {
  EXPECT_EQ(RoundTrip(*Sign(), {-2, -4}), (std::vector<float>{-3, -3}));
  EXPECT_EQ(RoundTrip(*Sign(), {2, 4}), (std::vector<float>{3, 3}));
  EXPECT_EQ(RoundTrip(*Sign(), {-0.0f}), (std::vector<float>{0}));
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> all_largest(1000, -largest);
  EXPECT_EQ(RoundTrip(*Sign(), all_largest), all_largest);
}

TEST(SignTest, RejectsMeansOfTheWrongSign) {
  const auto is_rejected = [&](float mean, float negative_mean) {
    Bytes section(9, 0);
    StoreUnaligned(&section[0], mean);
    StoreUnaligned(&section[4], negative_mean);
    return IsDataLoss(*Sign(), section, 3);
  };
  EXPECT_FALSE(is_rejected(1, -1));
  EXPECT_FALSE(is_rejected(0, 0));
  EXPECT_TRUE(is_rejected(-1, -1));
  EXPECT_TRUE(is_rejected(1, 1));
  EXPECT_TRUE(is_rejected(std::numeric_limits<float>::infinity(), -1));
  EXPECT_TRUE(is_rejected(1, std::nanf("")));
}

}  // namespace
}  // namespace tfcompress
