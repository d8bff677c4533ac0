// uniform: errors are at most half a step of the range.
#include <algorithm>
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

std::unique_ptr<const ValueCodec> Uniform(const std::string& bits = "8") {
  return MakePart<ValueCodec>("uniform", {{"bits", bits}});
}

TEST(UniformTest, ErrsByHalfAStep) {
  const std::vector<float> values = NormalValues(100000, 12);
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  for (const int bits : {8, 16}) {
    const auto codec = Uniform(std::to_string(bits));
    const double half_step = (double{*largest} - *least) / ((1 << bits) - 1) / 2;
    EXPECT_NEAR(codec->MaxError(values), half_step, 0.01 * half_step);
    const std::vector<float> decoded = RoundTrip(*codec, values);
    double worst = 0, sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = double{decoded[i]} - values[i];
      worst = std::max(worst, std::fabs(error));
      sum += error * error;
    }
    EXPECT_LE(worst, codec->MaxError(values));
    EXPECT_GT(worst, 0.99 * half_step);
    // Uniform errors: their mean square is a twelfth of the step squared.
    EXPECT_NEAR(sum / static_cast<double>(values.size()), half_step * half_step / 3,
                0.03 * half_step * half_step);
  }
}

TEST(UniformTest, EqualValuesAreExact) {
  for (float value : {0.0f, -3.1f, 2e-38f, std::numeric_limits<float>::max()}) {
    const std::vector<float> values(77, value);
    EXPECT_EQ(RoundTrip(*Uniform(), values), values);
    EXPECT_EQ(RoundTrip(*Uniform("16"), values), values);
  }
}

TEST(UniformTest, TheWholeRangeOfFloatsFits) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(RoundTrip(*Uniform(), {-largest, largest}), (std::vector<float>{-largest, largest}));
}

// The example of FORMAT.md.
TEST(UniformTest, Example) {
  const Bytes expected = {0x08, 0, 0, 0x80, 0xBF, 0, 0, 0x80, 0x40, 0x00, 0x33, 0xFF};
  const std::vector<float> values = {-1, 0, 4};
  EXPECT_EQ(MustEncode(*Uniform(), values), expected);
  EXPECT_EQ(MustDecode(*Uniform(), expected, 3), values);
}

TEST(UniformTest, RejectsBadHeaders) {
  const Bytes section = MustEncode(*Uniform(), {-1, 0, 4});
  const auto is_rejected = [&](size_t offset, auto value) {
    Bytes bad = section;
    StoreUnaligned(&bad[offset], value);
    return IsDataLoss(*Uniform(), bad, 3);
  };
  EXPECT_TRUE(is_rejected(0, uint8_t{7}));
  EXPECT_TRUE(is_rejected(0, uint8_t{16}));
  EXPECT_TRUE(is_rejected(1, 5.0f));  // Above the largest.
  EXPECT_TRUE(is_rejected(1, -std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(is_rejected(5, std::nanf("")));
}

}  // namespace
}  // namespace tfcompress
