// The device computes the core's buckets: the same codes, and the same means to the last bit.
#include "cuda/bucket_quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "contract_inputs.h"
#include "core/float_order.h"
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

struct Values {
  std::vector<float> values;
  uint32_t max_buckets;
};

// Quantizes lists of values side by side, alternately vectors and listed elements.
std::vector<BucketCodes> QuantizeOnDevice(const std::vector<Values>& lists, const Stream& stream) {
  std::vector<std::unique_ptr<GivenValues>> given;
  std::vector<QuantizerSize> sizes;
  std::vector<uint32_t> num_negative;
  uint64_t max_items = 0;
  for (const auto& [values, max_buckets] : lists) {
    given.push_back(std::make_unique<GivenValues>(values, given.size() % 2 == 1, stream));
    sizes.push_back({static_cast<uint32_t>(values.size()) + kSpare, max_buckets});
    num_negative.push_back(
        static_cast<uint32_t>(std::count_if(values.begin(), values.end(), IsNegative)));
    max_items += sizes.back().max_count;
  }
  const DeviceVector<uint32_t> num_negative_dev(num_negative, stream);
  QuantizerBuffers buffers;
  Workspace measure;
  ExpectOk(TakeQuantizerBuffers(sizes, max_items, 0, &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeQuantizerBuffers(sizes, max_items, 0, &carve, &buffers));
  for (size_t i = 0; i < lists.size(); ++i) {
    QuantizerPart& part = buffers.parts[i];
    part.values = given[i]->selected();
    part.count_dev = given[i]->count_dev();
    const bool has_negative = num_negative[i] > 0;
    part.num_negative_dev = has_negative ? num_negative_dev.data_dev() + i : nullptr;
  }
  ExpectOk(QuantizeToBuckets(buffers.parts, buffers, stream.get()));
  const std::vector<uint64_t> begins = Read(buffers.begins_dev, lists.size() + 1, stream);
  std::vector<BucketCodes> results;
  for (size_t i = 0; i < lists.size(); ++i) {
    const QuantizerPart& part = buffers.parts[i];
    const size_t count = lists[i].values.size();
    EXPECT_EQ(begins[i + 1] - begins[i], count);
    const uint32_t num_buckets = Read(part.state_dev, 1, stream)[0].num_buckets;
    EXPECT_LE(num_buckets, std::min<size_t>(count, part.max_buckets));
    results.push_back({Read(part.means_dev, std::min(num_buckets, part.max_buckets), stream),
                       Read(buffers.codes_dev() + begins[i], count, stream)});
    for (uint32_t& code : results.back().codes) code -= part.first_code;
  }
  return results;
}

void ExpectSameBuckets(const std::vector<Values>& lists, const Stream& stream) {
  const std::vector<BucketCodes> actual = QuantizeOnDevice(lists, stream);
  for (size_t i = 0; i < lists.size(); ++i) {
    SCOPED_TRACE(testing::Message()
                 << lists[i].values.size() << " values, " << lists[i].max_buckets << " buckets");
    const BucketCodes expected =
        QuantizeToBuckets(lists[i].values, lists[i].max_buckets, SerialExecutor());
    ASSERT_EQ(actual[i].means.size(), expected.means.size());
    ASSERT_TRUE(actual[i].codes == expected.codes);
    ASSERT_TRUE(SameBits(actual[i].means, expected.means));
  }
}

TEST(BucketQuantizer, FindsTheBucketsOfEveryInput) {
  const Stream stream;
  uint64_t seed = 1;
  for (const Input& input : Inputs()) {
    SCOPED_TRACE(input.name);
    std::vector<Values> lists;
    for (size_t n : {0, 1, 2, 31, 2000}) {
      for (uint32_t max_buckets : {2u, 3u, 16u, 256u, 65536u}) {
        lists.push_back({input.make(n, ++seed), max_buckets});
        ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets({lists.back()}, stream));
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets(lists, stream));
  }
}

// Runs of equal values of every length beside parts of every length.
TEST(BucketQuantizer, SplitsTiesAsTheCoreDoes) {
  const Stream stream;
  Random random(1);
  std::vector<Values> lists;
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
    lists.push_back({std::move(values), 2 + random.Below(40)});
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets(lists, stream));
}

// Up to the largest sample size all values are sampled, above it some. Covers several blocks, and
// blocks of several sizes.
TEST(BucketQuantizer, FindsTheBucketsOfManyValues) {
  const Stream stream;
  constexpr size_t kSample = QuantileSketch::kMaxSample;
  std::vector<Values> lists;
  for (const auto& [n, max_buckets] : std::vector<std::pair<size_t, uint32_t>>{
           {2 * kSample + 5, 100}, {3, 100}, {kSample, 7}, {2 * kSample + 5, 1025}}) {
    lists.push_back({NormalValues(n, n), max_buckets});
    // Many magnitudes, so that sums round.
    for (float& value : lists.back().values) value *= value * value;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets({lists[0]}, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets(lists, stream));
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
    ASSERT_NO_FATAL_FAILURE(ExpectSameBuckets({{values, max_buckets}}, stream));
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
