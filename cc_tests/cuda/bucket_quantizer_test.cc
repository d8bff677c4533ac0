// The device computes the core's buckets: the same codes, and the same means to the last bit.
#include "cuda/bucket_quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "contract_inputs.h"
#include "core/hash.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/quantile_sketch.h"
#include "device_encode.h"
#include "device_inputs.h"
#include "device_memory.h"
#include "given_values.h"

namespace tfcompress {
namespace device {
namespace {

// Room for more values than there are.
constexpr uint32_t kSpare = 37;

BucketCodes QuantizeOnDevice(const std::vector<float>& values, uint32_t max_buckets, bool listed,
                             const Stream& stream) {
  const auto count = static_cast<uint32_t>(values.size());
  const GivenValues given(values, listed, stream);
  QuantizerBuffers buffers;
  Workspace measure;
  ExpectOk(TakeQuantizerBuffers(count + kSpare, max_buckets, 0, &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeQuantizerBuffers(count + kSpare, max_buckets, 0, &carve, &buffers));
  ExpectOk(QuantizeToBuckets(given.selected(), given.count_dev(), buffers, stream.get()));
  const uint32_t num_buckets = Read(buffers.num_buckets_dev(), 1, stream)[0];
  EXPECT_LE(num_buckets, std::min(count, max_buckets));
  return {Read(buffers.means_dev, std::min(num_buckets, max_buckets), stream),
          Read(buffers.codes_dev(), count, stream)};
}

void ExpectSameBuckets(const std::vector<float>& values, uint32_t max_buckets, bool listed,
                       const Stream& stream) {
  const BucketCodes expected = QuantizeToBuckets(values, max_buckets, SerialExecutor());
  const BucketCodes actual = QuantizeOnDevice(values, max_buckets, listed, stream);
  ASSERT_EQ(actual.means.size(), expected.means.size());
  ASSERT_TRUE(actual.codes == expected.codes);
  ASSERT_TRUE(SameBits(actual.means, expected.means));
}

TEST(BucketQuantizer, FindsTheBucketsOfEveryInput) {
  const Stream stream;
  uint64_t seed = 1;
  for (const Input& input : Inputs()) {
    for (size_t n : {0, 1, 2, 31, 2000}) {
      for (uint32_t max_buckets : {2u, 3u, 16u, 256u, 65536u}) {
        SCOPED_TRACE(testing::Message() << input.name << ", " << n << " values, " << max_buckets);
        ++seed;
        ASSERT_NO_FATAL_FAILURE(
            ExpectSameBuckets(input.make(n, seed), max_buckets, seed % 2 == 0, stream));
      }
    }
  }
}

// Runs of equal values of every length beside parts of every length.
TEST(BucketQuantizer, SplitsTiesAsTheCoreDoes) {
  const Stream stream;
  Random random(1);
  for (int round = 0; round < 400; ++round) {
    const uint32_t num_distinct = 1 + random.Below(40);
    std::vector<float> values(1 + random.Below(120));
    for (float& value : values) {
      // Small keys are frequent: their runs are longer than parts; others have none or one.
      const float share = random.NextFloat();
      value = std::floor(share * share * share * static_cast<float>(num_distinct));
      if (round % 3 == 0) value -= 1;
      if (round % 3 == 1) value = static_cast<float>(random.Below(num_distinct)) - 20;
    }
    const uint32_t max_buckets = 2 + random.Below(40);
    SCOPED_TRACE(testing::Message() << "round " << round);
    ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets(values, max_buckets, false, stream));
  }
}

// Up to the largest sample size all values are sampled, above it some. Covers several blocks, and
// blocks of several sizes.
TEST(BucketQuantizer, FindsTheBucketsOfManyValues) {
  const Stream stream;
  constexpr size_t kSample = QuantileSketch::kMaxSample;
  const std::pair<size_t, uint32_t> cases[] = {{2 * kSample + 5, 100}, {2 * kSample + 5, 1025}};
  for (const auto& [n, max_buckets] : cases) {
    SCOPED_TRACE(testing::Message() << n << " values, " << max_buckets << " buckets");
    std::vector<float> values = NormalValues(n, n);
    for (float& value : values) value *= value * value;  // Many magnitudes, so that sums round.
    ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets(values, max_buckets, n % 2 == 0, stream));
  }
}

// The values have both signs, the sample only one.
TEST(BucketQuantizer, SplitsAtAZeroThatTheSampleMisses) {
  const Stream stream;
  const std::pair<float, uint32_t> cases[] = {{1.0f, 300}, {-1.0f, 2}};
  for (const auto& [sign, max_buckets] : cases) {
    std::vector<float> values = NormalValues(2 * QuantileSketch::kMaxSample, 3);
    for (float& value : values) value = sign * (std::fabs(value) + 0.1f);
    size_t unseen = 0;
    while (QuantileSketch::SamplePosition(unseen / 2, values.size()) == unseen) ++unseen;
    values[unseen] = -sign;
    ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets(values, max_buckets, false, stream));
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
