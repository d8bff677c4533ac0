// ternary: unbiased without clipping (TernGrad, equation 4), five trits in a byte.
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

std::unique_ptr<const ValueCodec> Ternary(const std::string& clip = "0") {
  return MakePart<ValueCodec>("ternary", {{"clip", clip}});
}

TEST(TernaryTest, IsUnbiasedWithoutClipping) {
  const std::vector<float> values = NormalValues(123, 9);
  float scale = 0;
  for (float value : values) scale = std::max(scale, std::fabs(value));
  ExpectUnbiased(*Ternary(), values, std::vector<double>(values.size(), scale));
}

TEST(TernaryTest, SendsOnlyTheScale) {
  const std::vector<float> values = NormalValues(1001, 10);
  float scale = 0;
  for (float value : values) scale = std::max(scale, std::fabs(value));
  const std::vector<float> decoded = RoundTrip(*Ternary(), values);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(decoded[i] == 0 || decoded[i] == std::copysign(scale, values[i]));
  }
}

TEST(TernaryTest, TheLargestMagnitudeIsCertain) {
  EXPECT_EQ(RoundTrip(*Ternary(), {2.0f, -2.0f, 0.0f, -0.0f, 2.0f, -2.0f, 0.0f}),
            (std::vector<float>{2, -2, 0, 0, 2, -2, 0}));
  EXPECT_EQ(RoundTrip(*Ternary(), {-1e-30f}), (std::vector<float>{-1e-30f}));
}

TEST(TernaryTest, ClipsAtDeviations) {
  std::vector<float> values = NormalValues(10000, 11);
  values[5] = 1000;
  double sum = 0;
  for (float value : values) sum += double{value} * value;
  const double limit = 2.5 * std::sqrt(sum / static_cast<double>(values.size()));
  const std::vector<float> decoded = RoundTrip(*Ternary("2.5"), values);
  EXPECT_NEAR(decoded[5], limit, 1e-6 * limit);
  // Without values beyond the bound, clipping changes nothing.
  const std::vector<float> equal(100, -3.0f);
  EXPECT_EQ(RoundTrip(*Ternary("2.5"), equal), equal);
}

// The example of FORMAT.md.
TEST(TernaryTest, Example) {
  const Bytes expected = {0x00, 0x00, 0x00, 0x40, 0x64, 0x02};
  const std::vector<float> values = {2, 0, -2, 0, 2, -2};
  EXPECT_EQ(MustEncode(*Ternary(), values), expected);
  EXPECT_EQ(MustDecode(*Ternary(), expected, 6), values);
}

TEST(TernaryTest, EveryCodeDecodesOrIsDataLoss) {
  for (uint32_t code = 0; code < 256; ++code) {
    const Bytes section = {0x00, 0x00, 0x80, 0x3F, static_cast<unsigned char>(code)};
    for (size_t k = 1; k <= 5; ++k) {
      if (code > 242) {
        EXPECT_TRUE(IsDataLoss(*Ternary(), section, k)) << code;
        continue;
      }
      uint32_t rest = code;
      for (float value : MustDecode(*Ternary(), section, k)) {
        EXPECT_EQ(value, rest % 3 == 2 ? -1.0f : static_cast<float>(rest % 3));
        rest /= 3;
      }
    }
  }
}

TEST(TernaryTest, RejectsBadScales) {
  for (float bad : {-1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Bytes section(5, 0);
    StoreUnaligned(&section[0], bad);
    EXPECT_TRUE(IsDataLoss(*Ternary(), section, 1));
  }
}

}  // namespace
}  // namespace tfcompress
