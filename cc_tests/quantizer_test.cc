#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "contract_inputs.h"
#include "core/exp.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/quantile_sketch.h"
#include "gtest/gtest.h"

namespace tfcompress {
namespace {

std::vector<float> HeavyTail(size_t size) {
  std::vector<float> values = NormalValues(size, size);
  for (float& value : values) value = std::pow(value, 9.0f);
  return values;
}

// Checks everything that QuantizeToBuckets promises.
void CheckBuckets(const std::vector<float>& values, uint32_t max_buckets) {
  const BucketCodes buckets = QuantizeToBuckets(values, max_buckets, SerialExecutor());
  const size_t num_buckets = buckets.means.size();
  ASSERT_LE(num_buckets, max_buckets);
  ASSERT_EQ(buckets.codes.size(), values.size());
  struct Bucket {
    double sum = 0;
    double count = 0;
    float least = std::numeric_limits<float>::max();
    float greatest = std::numeric_limits<float>::lowest();
    bool signs[2] = {false, false};
  };
  std::vector<Bucket> expected(num_buckets);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_LT(buckets.codes[i], num_buckets);
    Bucket& bucket = expected[buckets.codes[i]];
    bucket.sum += values[i];
    ++bucket.count;
    bucket.least = std::min(bucket.least, values[i]);
    bucket.greatest = std::max(bucket.greatest, values[i]);
    bucket.signs[values[i] < 0] = true;
  }
  for (size_t b = 0; b < num_buckets; ++b) {
    const Bucket& bucket = expected[b];
    ASSERT_GT(bucket.count, 0) << "bucket " << b << " is empty";
    EXPECT_FALSE(bucket.signs[0] && bucket.signs[1]) << "bucket " << b << " straddles zero";
    EXPECT_GE(buckets.means[b], bucket.least);
    EXPECT_LE(buckets.means[b], bucket.greatest);
    const double mean = bucket.sum / bucket.count;
    EXPECT_NEAR(buckets.means[b], mean, std::fabs(mean) * 1e-7 + 1e-45) << "bucket " << b;
    if (b > 0) {
      EXPECT_LT(expected[b - 1].greatest, bucket.least);
    }
  }
}

TEST(BucketQuantizerTest, KeepsItsPromises) {
  using Limits = std::numeric_limits<float>;
  std::vector<std::vector<float>> inputs = {
      {},
      {1.5f},
      {-1.5f},
      {0.0f},
      {-0.0f},
      {-1.0f, 5.0f},
      {-0.0f, 0.0f, -0.0f},
      {-1.0f, -0.0f, 0.0f, 1.0f},
      {-1.0f, -2.0f, -3.0f, -3.0f},
      std::vector<float>(1000, 0.25f),
      std::vector<float>(1000, -0.25f),
      {Limits::denorm_min(), -Limits::denorm_min(), 3 * Limits::denorm_min(), Limits::min()},
      {Limits::max(), Limits::lowest(), 1.0f, Limits::max()},
      NormalValues(5000, 5000),
      HeavyTail(5000),
      NormalValues(100000, 100000),
      HeavyTail(100000)};
  inputs.push_back(NormalValues(3000, 3000));
  inputs.back()[1234] = 1e30f;  // One huge value.
  inputs.push_back(NormalValues(70000, 70000));
  for (float& value : inputs.back()) value = std::fabs(value);
  inputs.back()[7] = -3.0f;  // A sign that the sample may miss.
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (uint32_t max_buckets : {2u, 3u, 256u, 65536u}) {
      SCOPED_TRACE(testing::Message() << "input " << i << ", " << max_buckets << " buckets");
      CheckBuckets(inputs[i], max_buckets);
    }
  }
}

TEST(BucketQuantizerTest, BucketsHaveEqualCounts) {
  const std::vector<float> values = NormalValues(25600, 25600);
  const BucketCodes buckets = QuantizeToBuckets(values, 256, SerialExecutor());
  std::vector<int> counts(buckets.means.size());
  for (uint32_t code : buckets.codes) ++counts[code];
  // 255 parts, one of them cut at zero.
  EXPECT_EQ(counts.size(), 256u);
  EXPECT_LE(*std::max_element(counts.begin(), counts.end()), 25600 / 255 + 20);
}

TEST(BucketQuantizerTest, FewDistinctValuesAreExact) {
  std::vector<float> values(10000, 1.0f);
  for (int i = 0; i < 15; ++i) values[i * 600] = static_cast<float>(i) - 7.5f;
  const BucketCodes buckets = QuantizeToBuckets(values, 16, SerialExecutor());
  EXPECT_EQ(buckets.means.size(), 16u);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(buckets.means[buckets.codes[i]], values[i]);
  }
}

TEST(BucketQuantizerTest, AValueThatFillsManyBucketsSharesNone) {
  std::vector<float> values = NormalValues(100, 100);
  values.resize(1000, 0.0f);
  const BucketCodes buckets = QuantizeToBuckets(values, 16, SerialExecutor());
  for (size_t i = 0; i < values.size(); ++i) {
    const float mean = buckets.means[buckets.codes[i]];
    EXPECT_EQ(mean == 0, values[i] == 0) << i;
  }
}

TEST(QuantileSketchTest, IsExactUpToItsSampleSize) {
  std::vector<float> values(QuantileSketch::kMaxSample);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 12345 % values.size());
  }
  const std::vector<uint32_t> splits = QuantileSketch(values, SerialExecutor()).Splits(4);
  const std::vector<uint32_t> quartiles = {OrderedKey(16384), OrderedKey(32768), OrderedKey(49152)};
  EXPECT_EQ(splits, quartiles);
}

TEST(QuantileSketchTest, RankErrorMeetsTheBoundAboveItsSampleSize) {
  std::vector<float> values = HeavyTail(200000);
  const std::vector<uint32_t> splits = QuantileSketch(values, SerialExecutor()).Splits(100);
  ASSERT_EQ(splits.size(), 99u);
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < splits.size(); ++i) {
    const auto below = std::partition_point(values.begin(), values.end(),
                                            [&](float v) { return OrderedKey(v) < splits[i]; });
    const double rank = static_cast<double>(below - values.begin()) / 200000;
    EXPECT_NEAR(rank, 0.01 * static_cast<double>(i + 1), 0.0064);
  }
}

TEST(ExpTest, AgreesWithTheLibrary) {
  for (double x = -700; x <= 700; x += 0.37) {
    EXPECT_NEAR(DeterministicExp(x) / std::exp(x), 1, 2e-15) << x;
  }
  for (double x = -1; x <= 1; x += 0.001) {
    EXPECT_NEAR(DeterministicExp(x) / std::exp(x), 1, 1e-15) << x;
  }
}

TEST(ExpTest, HasTheSameBitsEverywhere) {
  EXPECT_EQ(DeterministicExp(0), 1.0);
  EXPECT_EQ(DeterministicExp(-1e9), DeterministicExp(-708));
  EXPECT_EQ(DeterministicExp(1e9), DeterministicExp(708));
  uint64_t checksum = 0;
  for (int i = -1000; i <= 1000; ++i) {
    const double y = DeterministicExp(i * 0.0871);
    uint64_t bits;
    std::memcpy(&bits, &y, sizeof(bits));
    checksum = HashKey(bits, checksum);
  }
  EXPECT_EQ(checksum, 8199977587561228236u);
}

}  // namespace
}  // namespace tfcompress
