// block_int: levels, scales and clipping.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

std::unique_ptr<const ValueCodec> BlockInt(const std::string& bits,
                                           const std::string& block = "256",
                                           const std::string& levels = "even") {
  return MakePart<ValueCodec>("block_int", {{"bits", bits}, {"block", block}, {"levels", levels}});
}

// The examples of FORMAT.md.
TEST(BlockIntTest, Examples) {
  const Bytes expected = {0x04, 0x04, 0xE0, 0x40, 0x08, 0x7B};
  const std::vector<float> values = {1, -7, 3.5f, 0};
  EXPECT_EQ(MustEncode(*BlockInt("4", "16"), values), expected);
  EXPECT_EQ(RoundTrip(*BlockInt("4", "16"), values), (std::vector<float>{1, -7, 4, 0}));
  const Bytes expected_squares = {0x84, 0x04, 0xE0, 0x40, 0x0A, 0x7C};
  const float step = 7.0f / 49;
  EXPECT_EQ(MustEncode(*BlockInt("4", "16", "square"), values), expected_squares);
  EXPECT_EQ(RoundTrip(*BlockInt("4", "16", "square"), values),
            (std::vector<float>{9 * step, -49 * step, 25 * step, 0}));
}

TEST(BlockIntTest, ErrsByHalfAStepOfTheBlock) {
  std::vector<float> values = NormalValues(100000, 12);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= i % 512 < 256 ? 1.0f : 1e-6f;
  for (int bits = 3; bits <= 8; ++bits) {
    const std::vector<float> decoded = RoundTrip(*BlockInt(std::to_string(bits)), values);
    for (size_t begin = 0; begin < values.size(); begin += 256) {
      const size_t end = std::min(begin + 256, values.size());
      double largest = 0, error = 0;
      for (size_t i = begin; i < end; ++i) {
        largest = std::max(largest, std::fabs(double{values[i]}));
        error = std::max(error, std::fabs(double{decoded[i]} - values[i]));
      }
      // The scale is at most 1/128 above the largest magnitude.
      ASSERT_LE(error, 1.01 * largest / ((1 << bits) - 2)) << bits << " bits from " << begin;
    }
  }
}

TEST(BlockIntTest, SquaresAreTheNearestOnes) {
  std::vector<float> values = NormalValues(256, 5);
  values[7] = 4.0f;  // The scale is a bfloat16.
  for (int bits = 3; bits <= 8; ++bits) {
    const std::vector<float> decoded =
        RoundTrip(*BlockInt(std::to_string(bits), "256", "square"), values);
    const int largest = (1 << (bits - 1)) - 1;
    for (size_t i = 0; i < values.size(); ++i) {
      double nearest = 4;
      for (int level = 0; level <= largest; ++level)
        nearest = std::min(nearest, std::fabs(4.0 * level * level / (largest * largest) -
                                              std::fabs(double{values[i]})));
      ASSERT_NEAR(std::fabs(double{decoded[i]} - values[i]), nearest, 1e-5) << bits << ' ' << i;
    }
  }
}

// What even levels round to zero.
TEST(BlockIntTest, SquaresKeepSmallValuesBesideLargeOnes) {
  const std::vector<float> values = {49, 1, -1, 2, -3};
  EXPECT_EQ(RoundTrip(*BlockInt("4"), values), (std::vector<float>{49, 0, 0, 0, 0}));
  EXPECT_EQ(RoundTrip(*BlockInt("4", "256", "square"), values),
            (std::vector<float>{49, 1, -1, 1, -4}));
}

TEST(BlockIntTest, FourLevelsAreEven) {
  const std::vector<float> values = NormalValues(1000, 3);
  EXPECT_EQ(MustEncode(*BlockInt("2", "64", "square"), values),
            MustEncode(*BlockInt("2", "64", "even"), values));
}

TEST(BlockIntTest, TwoBitsAreFourLevelsOfTheRootMeanSquare) {
  std::vector<float> values(64, 1.0f);
  for (size_t i = 0; i < values.size(); i += 2) values[i] = -1.0f;
  values[5] = 3.0f;
  values[6] = 0.0f;
  const std::vector<float> decoded = RoundTrip(*BlockInt("2", "64"), values);
  const float step = decoded[5] / 1.5f;
  EXPECT_NEAR(step, std::sqrt(71.0 / 64), 0.01);
  EXPECT_EQ(decoded[6], 0.5f * step);
  EXPECT_EQ(decoded[0], -0.5f * step);
  EXPECT_EQ(decoded[1], 0.5f * step);
}

TEST(BlockIntTest, ZerosStayZeros) {
  for (int bits = 2; bits <= 8; ++bits) {
    const std::vector<float> zeros(300);
    EXPECT_EQ(RoundTrip(*BlockInt(std::to_string(bits)), zeros), zeros);
  }
}

TEST(BlockIntTest, HugeValuesAreClippedAndTinyOnesAreZero) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(RoundTrip(*BlockInt("8"), {largest, -largest, 0}),
            (std::vector<float>{0x1p126f, -0x1p126f, 0}));
  EXPECT_EQ(RoundTrip(*BlockInt("8"), {0x1p-101f, -0x1p-140f}), (std::vector<float>{0, 0}));
}

TEST(BlockIntTest, RefusesHeadersAndScalesThatNoEncoderWrites) {
  const std::vector<float> values = {1, -7, 3.5f, 0};
  const Bytes good = MustEncode(*BlockInt("4", "16"), values);
  const auto decode = [&](size_t position, unsigned char byte) {
    Bytes section = good;
    section[position] = byte;
    std::vector<float> decoded(values.size());
    return BlockInt("8")->Decode(section, Support::Everything(4), {}, Span<float>(decoded));
  };
  EXPECT_TRUE(decode(4, 0).ok());
  EXPECT_TRUE(decode(0, 0x84).ok());
  for (unsigned char levels : {0x00, 0x01, 0x09, 0x80, 0x81, 0x82, 0x89, 0xFF})
    EXPECT_FALSE(decode(0, levels).ok());
  for (unsigned char block : {0, 3, 11, 255}) EXPECT_FALSE(decode(1, block).ok());
  for (unsigned char high : {0x00, 0x0C, 0x7F, 0xC0, 0xFF}) EXPECT_FALSE(decode(3, high).ok());
}

}  // namespace
}  // namespace tfcompress
