// minmax: one MinMaxSketch of bucket numbers for each sign, without groups.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "core/byte_io.h"
#include "core/hash.h"
#include "core/registry.h"
#include "gtest/gtest.h"
#include "make_part.h"

namespace tfcompress {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

constexpr uint64_t kSeed = 11;

std::unique_ptr<const ValueCodec> MakeMinmax(const Settings& settings = {}) {
  return MakePart<ValueCodec>("minmax", settings);
}

std::vector<float> RoundTrip(const ValueCodec& codec, const std::vector<float>& values,
                             const Support& support) {
  Bytes section;
  EXPECT_TRUE(codec.Encode(values, support, {kSeed}, &section).ok());
  EXPECT_LE(section.size(), codec.MaxEncodedBytes(static_cast<uint32_t>(values.size())));
  std::vector<float> decoded(values.size(), NAN);
  const Status status = codec.Decode(section, support, {kSeed}, Span<float>(decoded));
  EXPECT_TRUE(status.ok()) << status.message();
  return decoded;
}

std::vector<uint32_t> SpacedIndices(size_t size, uint32_t spacing) {
  std::vector<uint32_t> indices(size);
  for (size_t i = 0; i < size; ++i) indices[i] = static_cast<uint32_t>(i) * spacing;
  return indices;
}

// Values with so few distinct magnitudes that each has its own bucket.
std::vector<float> Levels(size_t size, uint32_t num_levels) {
  Random random(size);
  std::vector<float> values(size);
  for (float& value : values) {
    value = static_cast<float>(1 + random.Below(num_levels));
    if (random.Below(2) == 1) value = -value;
  }
  return values;
}

TEST(MinmaxValueTest, MeetsTheClosedForm) {
  constexpr uint32_t kLevels = 32;
  const std::vector<float> values = Levels(60000, kLevels);
  for (uint32_t spacing : {1u, 10u, 4096u}) {
    const std::vector<uint32_t> indices = SpacedIndices(values.size(), spacing);
    const Support support(indices.back() + 1, indices);
    for (int rows : {1, 2, 4}) {
      const auto decoded =
          RoundTrip(*MakeMinmax({{"rows", std::to_string(rows)}}), values, support);
      double exact = 0;
      double shortfall = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::signbit(decoded[i]), std::signbit(values[i]));
        ASSERT_LE(std::fabs(decoded[i]), std::fabs(values[i]));
        exact += decoded[i] == values[i];
        shortfall += std::fabs(values[i]) - std::fabs(decoded[i]);
      }
      // Five keys per column: all cells of a key hold less with probability (1 - e^(-5 t /
      // m))^rows.
      double expected_exact = 0;
      double expected_shortfall = 0;
      for (uint32_t j = 0; j < kLevels; ++j) {
        expected_exact += 1 - std::pow(1 - std::exp(-5.0 * j / kLevels), rows);
        expected_shortfall += j;
        for (uint32_t t = 1; t <= j; ++t) {
          expected_shortfall -= 1 - std::pow(1 - std::exp(-5.0 * t / kLevels), rows);
        }
      }
      const auto size = static_cast<double>(values.size());
      EXPECT_NEAR(exact / size, expected_exact / kLevels, 0.01) << rows << ' ' << spacing;
      EXPECT_NEAR(shortfall / size, expected_shortfall / kLevels, 0.15) << rows << ' ' << spacing;
    }
  }
}

TEST(MinmaxValueTest, IsExactWithoutCollisions) {
  const std::vector<float> values = {3, -1, 0.5f, -0.25f, 7, 0};
  const std::vector<uint32_t> indices = {0, 5, 900, 1000000, 0x7FFFFFF0, 0x7FFFFFFE};
  // Eight rows of as many columns as keys: some seed has no collision in all rows of a key.
  const auto decoded = RoundTrip(*MakeMinmax({{"rows", "8"}, {"columns", "1"}}), values,
                                 Support(0x7FFFFFFF, indices));
  EXPECT_EQ(decoded, values);
}

TEST(MinmaxValueTest, DecodesOnlyMeansOfTheSign) {
  const std::vector<float> values = {-3, -2, -1, 0, -0.0f, 4, 5};
  const auto decoded = RoundTrip(*MakeMinmax(), values, Support::Everything(7));
  const std::set<float> allowed = {-3, -2, -1, 0, 4, 5};
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(allowed.count(decoded[i])) << decoded[i];
    EXPECT_EQ(decoded[i] < 0, values[i] < 0);
  }
}

TEST(MinmaxValueTest, WorkedExample) {
  const std::vector<float> values = {1, -2, 0.5f, 2};
  const std::vector<uint32_t> indices = {1, 4, 9, 12};
  Bytes section;
  ASSERT_TRUE(MakeMinmax()->Encode(values, Support(16, indices), {0}, &section).ok());
  EXPECT_EQ(section, (Bytes{0x02, 0, 0, 0, 0x02,                                                  //
                            0x03, 0, 0, 0, 0,    0, 0, 0x3F, 0,    0, 0x80, 0x3F, 0, 0, 0, 0x40,  //
                            0x01, 0, 0, 0, 0x00,                                                  //
                            0x01, 0, 0, 0, 0,    0, 0, 0x40, 0x01, 0, 0,    0}));
  std::vector<float> decoded(4);
  ASSERT_TRUE(MakeMinmax()->Decode(section, Support(16, indices), {0}, Span<float>(decoded)).ok());
  EXPECT_EQ(decoded, (std::vector<float>{0.5f, -2, 0.5f, 0.5f}));
}

TEST(MinmaxValueTest, RejectsRowsSignsBucketsColumnsAndCells) {
  const std::vector<float> values = {1, -2, 0.5f, 2};
  Bytes section;
  const auto codec = MakeMinmax();
  ASSERT_TRUE(codec->Encode(values, Support::Everything(4), {0}, &section).ok());
  const auto is_rejected = [&](size_t offset, auto value) {
    Bytes bad = section;
    StoreUnaligned(&bad[offset], value);
    std::vector<float> decoded(4);
    return codec->Decode(bad, Support::Everything(4), {0}, Span<float>(decoded)).code() ==
           StatusCode::kDataLoss;
  };
  EXPECT_TRUE(is_rejected(0, uint32_t{0}));
  EXPECT_TRUE(is_rejected(0, uint32_t{9}));
  EXPECT_TRUE(is_rejected(4, uint8_t{0x12}));  // A sign after the last value.
  EXPECT_TRUE(is_rejected(4, uint8_t{0x0F}));  // Buckets for no nonnegative value.
  EXPECT_TRUE(is_rejected(5, uint32_t{4}));
  EXPECT_TRUE(is_rejected(9, -1.0f));
  EXPECT_TRUE(is_rejected(21, uint32_t{0}));  // Columns.
  EXPECT_TRUE(is_rejected(21, uint32_t{4}));
  EXPECT_TRUE(is_rejected(25, uint8_t{0x0C}));  // A cell of bucket 3 of 3.
}

}  // namespace
}  // namespace tfcompress
