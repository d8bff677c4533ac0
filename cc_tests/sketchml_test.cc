#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/registry.h"
#include "gtest/gtest.h"
#include "joint_round_trip.h"
#include "make_part.h"

namespace tfcompress {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<const SparseCodec> MakeSketchml(const Settings& settings = {}) {
  return MakePart<SparseCodec>("sketchml", settings);
}

constexpr uint64_t kSketchSeed = 7;

JointSection EncodeSketch(const SparseCodec& codec, const std::vector<float>& dense,
                          const Support& support) {
  JointSection encoded = MustEncode(codec, dense, support, {kSketchSeed});
  EXPECT_EQ(encoded.k, support.size());
  return encoded;
}

Status DecodeTo(const SparseCodec& codec, ByteSpan section, uint32_t k, SparseTensor* out) {
  return codec.Decode(section, k, {kSketchSeed}, out);
}

SparseTensor Shape(const Support& support) {
  SparseTensor tensor;
  tensor.n = support.n();
  tensor.everything = support.everything();
  return tensor;
}

std::vector<uint32_t> EveryThird(size_t n) {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < n; i += 3) indices.push_back(i);
  if (n > 0 && indices.back() != n - 1) indices.push_back(static_cast<uint32_t>(n - 1));
  return indices;
}

// Decodes what `codec` encodes and checks everything it promises.
void CheckRoundTrip(const SparseCodec& codec, const std::vector<float>& dense,
                    const Support& support) {
  const JointSection encoded = EncodeSketch(codec, dense, support);
  SparseTensor decoded = Shape(support);
  const Status status = DecodeTo(codec, encoded.section, encoded.k, &decoded);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(decoded.values, encoded.decoded.values);
  EXPECT_EQ(decoded.indices, encoded.decoded.indices);
  EXPECT_EQ(encoded.decoded.n, support.n());
  EXPECT_EQ(encoded.decoded.everything, support.everything());
  ASSERT_EQ(decoded.values.size(), support.size());
  if (!support.everything()) {
    EXPECT_TRUE(std::equal(decoded.indices.begin(), decoded.indices.end(),
                           support.indices().begin(), support.indices().end()));
  }

  // For each sign, decoded values are bucket means. A value decodes to the mean of its own bucket
  // or of one nearer to zero, so never farther from zero than the farthest value.
  double farthest[2] = {0, 0};
  for (size_t i = 0; i < support.size(); ++i) {
    const float value = dense[support[i]];
    double& far = farthest[value < 0];
    far = std::max(far, std::fabs(double{value}));
  }
  for (size_t i = 0; i < support.size(); ++i) {
    const float value = dense[support[i]];
    ASSERT_TRUE(std::isfinite(decoded.values[i]));
    ASSERT_FALSE(decoded.values[i] < 0 && value >= 0) << value;
    ASSERT_FALSE(decoded.values[i] > 0 && value < 0) << value;
    ASSERT_LE(std::fabs(decoded.values[i]), farthest[value < 0]) << value;
  }
}

class SketchmlTest : public testing::TestWithParam<Settings> {
 protected:
  std::unique_ptr<const SparseCodec> codec_ = MakeSketchml(GetParam());
};

TEST_P(SketchmlTest, RoundTrips) {
  using Limits = std::numeric_limits<float>;
  std::vector<std::vector<float>> inputs = {
      {},
      {1.0f},
      {-1.0f},
      {0.0f, -0.0f, 0.0f},
      {1.0f, -1.0f, 2.0f, -2.0f},
      std::vector<float>(500, 0.5f),
      std::vector<float>(500, -0.5f),
      {Limits::denorm_min(), -Limits::denorm_min(), Limits::max(), Limits::lowest(), 0.0f},
      NormalValues(6000, 6000)};
  inputs.push_back(NormalValues(5000, 5000));
  for (float& value : inputs.back()) value = -std::pow(std::fabs(value), 9.0f);
  inputs.push_back(NormalValues(4000, 4000));
  inputs.back()[100] = 1e30f;
  for (const std::vector<float>& dense : inputs) {
    SCOPED_TRACE(testing::Message() << dense.size() << " elements");
    const auto n = static_cast<uint32_t>(dense.size());
    CheckRoundTrip(*codec_, dense, Support::Everything(n));
    CheckRoundTrip(*codec_, dense, Support(n, Span<const uint32_t>()));
    const std::vector<uint32_t> indices = EveryThird(n);
    CheckRoundTrip(*codec_, dense, Support(n, indices));
  }
}

TEST_P(SketchmlTest, RefusesAnotherNumberOfElements) {
  const std::vector<float> dense = NormalValues(600, 600);
  const std::vector<uint32_t> indices = EveryThird(600);
  const Support support(600, indices);
  const JointSection encoded = EncodeSketch(*codec_, dense, support);
  for (const uint32_t k : {encoded.k - 1, encoded.k + 1}) {
    SparseTensor decoded = Shape(support);
    EXPECT_EQ(DecodeTo(*codec_, encoded.section, k, &decoded).code(), StatusCode::kDataLoss) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, SketchmlTest,
    testing::Values(Settings{}, Settings{{"buckets", "5"}, {"groups", "3"}, {"rows", "1"}},
                    Settings{{"buckets", "64"}, {"groups", "64"}},
                    Settings{{"buckets", "4096"}, {"groups", "1"}, {"rows", "8"}, {"columns", "1"}},
                    Settings{{"columns", "0.001"}}));

TEST(SketchmlErrorTest, CollisionsStayWithinTheGroup) {
  const std::vector<float> dense = NormalValues(30000, 30000);
  const Support support = Support::Everything(30000);
  // With one group per bucket the sketch is exact: these are the means of the buckets.
  const auto buckets =
      EncodeSketch(*MakeSketchml({{"groups", "256"}}), dense, support).decoded.values;
  const auto decoded = EncodeSketch(*MakeSketchml(), dense, support).decoded.values;
  std::set<float> positive;
  std::set<float> negative;
  for (float mean : buckets) (mean < 0 ? negative : positive).insert(std::fabs(mean));
  ASSERT_EQ(positive.size(), 256u);
  ASSERT_EQ(negative.size(), 256u);
  size_t num_exact = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const std::set<float>& means = buckets[i] < 0 ? negative : positive;
    const auto true_bucket = std::distance(means.begin(), means.find(std::fabs(buckets[i])));
    const auto bucket = std::distance(means.begin(), means.find(std::fabs(decoded[i])));
    ASSERT_LE(bucket, true_bucket);
    ASSERT_EQ(bucket / 32, true_bucket / 32);
    num_exact += bucket == true_bucket;
  }
  // The closed form of minmax_sketch.h for 32 buckets, 5 keys for each column and 2 rows.
  double expected = 0;
  for (int j = 0; j < 32; ++j) expected += (1 - std::pow(1 - std::exp(-5 * j / 32.0), 2)) / 32;
  EXPECT_NEAR(static_cast<double>(num_exact) / 30000, expected, 0.02);
}

TEST(SketchmlErrorTest, OneGroupPerBucketIsQuantileQuantification) {
  const std::vector<float> dense = NormalValues(30000, 30000);
  const auto decoded =
      EncodeSketch(*MakeSketchml({{"groups", "256"}}), dense, Support::Everything(30000));
  EXPECT_LT(RelativeError(dense, decoded.decoded.values), 0.03);
}

}  // namespace
}  // namespace tfcompress
