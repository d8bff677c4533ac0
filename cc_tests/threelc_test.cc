// threelc: 3-value quantization, quartic encoding and zero-run encoding (3LC, section 3).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/hash.h"
#include "core/registry.h"
#include "gtest/gtest.h"
#include "joint_round_trip.h"
#include "make_part.h"

namespace tfcompress {
namespace {

using Limits = std::numeric_limits<float>;

constexpr size_t kScaleBytes = 4;

std::unique_ptr<const SparseCodec> MakeThreelc(const std::string& multiplier = "1") {
  return MakePart<SparseCodec>("threelc", {{"multiplier", multiplier}});
}

JointSection EncodeTrits(const SparseCodec& codec, const std::vector<float>& dense,
                         const Support& support, Executor* executor = SerialExecutor()) {
  return MustEncode(codec, dense, support, {0, executor});
}
JointSection EncodeTrits(const std::vector<float>& dense) {
  return EncodeTrits(*MakeThreelc(), dense, Support::Everything(dense.size()));
}

std::vector<float> ToDense(const SparseTensor& sparse) {
  std::vector<float> dense(sparse.n);
  for (size_t i = 0; i < sparse.values.size(); ++i) dense[sparse.indices[i]] = sparse.values[i];
  return dense;
}

// Encodes `dense` and returns the coded digits, without the scale.
Bytes Digits(const std::vector<float>& dense) {
  const Bytes section = EncodeTrits(dense).section;
  return Bytes(section.begin() + kScaleBytes, section.end());
}

TEST(ThreelcTest, QuarticBytesAreFiveDigits) {
  EXPECT_EQ(Digits({1, 1, 1, 1, 1}), Bytes{242});
  EXPECT_EQ(Digits({-1, -1, -1, -1, -1}), Bytes{0});
  EXPECT_EQ(Digits({1, 0, 0, 0, 0}), Bytes{121 + 81});
  EXPECT_EQ(Digits({0, 0, 0, 0, -1}), Bytes{121 - 1});
  EXPECT_EQ(Digits({0, 1}), Bytes{121 + 27});  // Zeros follow the last element.
}

TEST(ThreelcTest, RunsOfZerosAreOneByte) {
  const auto digits_of_run = [](size_t run) {
    std::vector<float> dense(5 * run + 1);
    dense.back() = 1;
    const Bytes digits = Digits(dense);
    EXPECT_EQ(digits.back(), 121 + 81);
    return Bytes(digits.begin(), digits.end() - 1);
  };
  EXPECT_EQ(digits_of_run(1), Bytes{121});
  EXPECT_EQ(digits_of_run(2), Bytes{243});
  EXPECT_EQ(digits_of_run(14), Bytes{255});
  EXPECT_EQ(digits_of_run(15), (Bytes{255, 121}));
  EXPECT_EQ(digits_of_run(16), (Bytes{255, 243}));
  EXPECT_EQ(digits_of_run(1000), [] {
    Bytes bytes(71, 255);
    bytes.push_back(243 + 6 - 2);
    return bytes;
  }());
}

TEST(ThreelcTest, WorkedExample) {
  std::vector<float> dense(33);
  dense[0] = 0.75f;
  dense[1] = -1;
  dense[3] = 0.25f;
  dense[31] = 0.5f;
  const JointSection encoded = EncodeTrits(dense);
  EXPECT_EQ(encoded.section, (Bytes{0, 0, 0x80, 0x3F, 0xAF, 0xF6, 0x94}));
  EXPECT_EQ(encoded.decoded.indices, (std::vector<uint32_t>{0, 1, 31}));
  EXPECT_EQ(encoded.decoded.values, (std::vector<float>{1, -1, 1}));
  const JointSection sparser = EncodeTrits(*MakeThreelc("1.75"), dense, Support::Everything(33));
  EXPECT_EQ(sparser.section, (Bytes{0, 0, 0xE0, 0x3F, 0x5E, 0xF7}));
  EXPECT_EQ(sparser.decoded.indices, std::vector<uint32_t>{1});
  EXPECT_EQ(sparser.decoded.values, std::vector<float>{-1.75f});
}

TEST(ThreelcTest, TernaryTensorsRoundTrip) {
  ThreadExecutor threads(3);
  for (double density : {0.0, 0.001, 0.1, 0.9}) {
    for (uint32_t n : {1u, 4u, 5u, 6u, 999u, 700001u}) {
      Random random(n);
      std::vector<float> dense(n);
      for (float& value : dense) {
        if (random.NextFloat() < density) value = random.Below(2) == 1 ? 0.125f : -0.125f;
      }
      const auto codec = MakeThreelc();
      const JointSection encoded = EncodeTrits(*codec, dense, Support::Everything(n));
      EXPECT_EQ(encoded.decoded.n, n);
      EXPECT_EQ(ToDense(encoded.decoded), dense);
      EXPECT_EQ(encoded.k, encoded.decoded.indices.size());
      EXPECT_EQ(EncodeTrits(*codec, dense, Support::Everything(n), &threads).section,
                encoded.section);
      if (encoded.k == 0) {
        EXPECT_TRUE(encoded.section.empty());
        continue;
      }
      SparseTensor decoded;
      decoded.n = n;
      ASSERT_TRUE(codec->Decode(encoded.section, encoded.k, {0, &threads}, &decoded).ok());
      EXPECT_EQ(decoded.indices, encoded.decoded.indices);
      EXPECT_EQ(decoded.values, encoded.decoded.values);
    }
  }
}

TEST(ThreelcTest, ElementsOutsideTheSupportAreZeros) {
  Random random(3);
  std::vector<float> dense(400000);
  for (float& value : dense) value = random.NextFloat() - 0.5f;
  std::vector<uint32_t> indices;
  std::vector<float> masked(dense.size());
  for (uint32_t i = random.Below(9); i < dense.size(); i += 1 + random.Below(40)) {
    indices.push_back(i);
    masked[i] = dense[i];
  }
  const auto n = static_cast<uint32_t>(dense.size());
  EXPECT_EQ(EncodeTrits(*MakeThreelc(), dense, Support(n, indices)).section,
            EncodeTrits(masked).section);
}

TEST(ThreelcTest, QuantizationMovesAValueByHalfTheScaleAtMost) {
  Random random(4);
  std::vector<float> dense(5000);
  for (float& value : dense) value = (random.NextFloat() - 0.5f) * (random.NextFloat() - 0.5f);
  const float largest = std::fabs(*std::max_element(
      dense.begin(), dense.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
  for (const std::string multiplier : {"1", "1.5", "1.999"}) {
    const float scale = static_cast<float>(largest * std::stod(multiplier));
    const std::vector<float> decoded =
        ToDense(EncodeTrits(*MakeThreelc(multiplier), dense, Support::Everything(5000)).decoded);
    for (size_t i = 0; i < dense.size(); ++i) {
      ASSERT_LE(std::fabs(double{dense[i]} - decoded[i]), scale / 2.0);
      ASSERT_EQ(decoded[i] != 0, std::fabs(dense[i]) >= scale / 2);
    }
  }
}

TEST(ThreelcTest, TakesTheEndsOfTheFloats) {
  const std::vector<float> large = {Limits::max(), Limits::lowest(), 0, 1};
  for (const std::string multiplier : {"1", "1.999"}) {
    EXPECT_EQ(ToDense(EncodeTrits(*MakeThreelc(multiplier), large, Support::Everything(4)).decoded),
              (std::vector<float>{Limits::max(), Limits::lowest(), 0, 0}));
  }
  EXPECT_EQ(EncodeTrits({Limits::min(), 0}).decoded.values, std::vector<float>{Limits::min()});
  EXPECT_EQ(EncodeTrits({Limits::denorm_min(), -Limits::min() / 2}).k, 0u);
  EXPECT_EQ(EncodeTrits({0, -0.0f}).k, 0u);
  EXPECT_EQ(EncodeTrits({}).k, 0u);
}

TEST(ThreelcTest, RefusesOtherNumbersAndDigitsPastTheEnd) {
  const auto codec = MakeThreelc();
  Random random(5);
  std::vector<float> dense(333);
  for (float& value : dense) value = random.NextFloat() - 0.5f;
  const JointSection encoded = EncodeTrits(dense);
  const auto decode = [&](const Bytes& section, uint32_t n, uint32_t k, SparseTensor* decoded) {
    decoded->n = n;
    return codec->Decode(section, k, {}, decoded);
  };
  SparseTensor decoded;
  EXPECT_EQ(decode(encoded.section, 333, encoded.k + 1, &decoded).code(), StatusCode::kDataLoss);
  EXPECT_EQ(decode(encoded.section, 338, encoded.k, &decoded).code(), StatusCode::kDataLoss);
  // A digit after the end of three elements.
  EXPECT_EQ(decode({0, 0, 0x80, 0x3F, 121 + 3}, 3, 1, &decoded).code(), StatusCode::kDataLoss);
  EXPECT_EQ(decode({0, 0, 0x80, 0xBF, 121 + 9}, 3, 1, &decoded).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(decode({0, 0, 0x80, 0x3F, 121 + 9}, 3, 1, &decoded).ok());
}

}  // namespace
}  // namespace tfcompress
