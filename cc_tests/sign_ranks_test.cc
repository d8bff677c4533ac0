#include "core/sketch/sign_ranks.h"

#include <vector>

#include "core/hash.h"
#include "gtest/gtest.h"

namespace tfcompress {
namespace {

// Values of which this share is negative.
std::vector<float> SignedValues(size_t size, float negative) {
  Random random(size);
  std::vector<float> values(size);
  for (float& value : values) {
    value = random.NextFloat();
    if (random.NextFloat() < negative) value = -1 - value;
  }
  return values;
}

TEST(SignRanksTest, PositionsAreThoseOfAList) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16}, size_t{17}, size_t{200003}}) {
    for (const float negative : {0.0f, 0.001f, 0.5f, 1.0f}) {
      std::vector<float> values = SignedValues(size, negative);
      if (size > 3) values[3] = -0.0f;
      std::vector<uint32_t> expected[kNumSigns];
      for (size_t i = 0; i < size; ++i) expected[values[i] < 0].push_back(static_cast<uint32_t>(i));
      const SignRanks ranks(values, SerialExecutor());
      for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
        ASSERT_EQ(ranks.Count(sign), expected[sign].size());
        for (const size_t step : {size_t{1}, size_t{7}, size_t{1000}}) {
          const std::vector<uint32_t> positions = ranks.Positions(
              sign, expected[sign].size() / step, [=](size_t i) { return i * step + step / 2; });
          for (size_t i = 0; i < positions.size(); ++i)
            ASSERT_EQ(positions[i], expected[sign][i * step + step / 2]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tfcompress
