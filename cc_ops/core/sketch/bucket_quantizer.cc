#include "core/sketch/bucket_quantizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/bit_io.h"
#include "core/float_order.h"
#include "core/sketch/quantile_sketch.h"

namespace tfcompress {
namespace {

bool HasBothSigns(Span<const float> values, Executor* executor) {
  std::vector<int64_t> num_negative(NumBlocks(values.size()));
  ForEachBlock(executor, values.size(), [&](int64_t block, int64_t begin, int64_t end) {
    uint32_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += IsNegative(values[i]);
    num_negative[block] = count;
  });
  const auto total = std::accumulate(num_negative.begin(), num_negative.end(), int64_t{0});
  return total > 0 && total < static_cast<int64_t>(values.size());
}

// Makes zero a split. The least nonnegative key of the sample is then none: [0, key) may be empty.
void SplitAtZero(const QuantileSketch& sketch, std::vector<uint32_t>* splits) {
  const Span<const uint32_t> sample = sketch.sorted_keys();
  const uint32_t* nonnegative = std::lower_bound(sample.begin(), sample.end(), kZeroKey);
  auto split = std::lower_bound(splits->begin(), splits->end(), kZeroKey);
  if (split != splits->end() && *split == *nonnegative) {
    *split = kZeroKey;
  } else {
    splits->insert(split, kZeroKey);
  }
}

std::vector<uint32_t> ChooseSplits(Span<const float> values, uint32_t max_buckets,
                                   Executor* executor) {
  const QuantileSketch sketch(values, executor);
  std::vector<uint32_t> splits = sketch.Splits(max_buckets);
  if (!HasBothSigns(values, executor)) return splits;
  SplitAtZero(sketch, &splits);
  if (splits.size() == max_buckets) {
    splits = sketch.Splits(max_buckets - 1);
    SplitAtZero(sketch, &splits);
  }
  return splits;
}

// Counts, for many keys, the splits that are not above them: the bucket of the key.
class SplitSearch {
 public:
  explicit SplitSearch(std::vector<uint32_t> splits)
      : half_((uint32_t{1} << BitsFor(splits.size() + 1)) / 2), splits_(std::move(splits)) {
    splits_.resize(2 * half_, 0xFFFFFFFFu);  // Above the key of every finite float.
  }

  void Find(Span<const float> values, uint32_t* codes) const {
    // Copies that `codes` cannot alias: otherwise they are loaded again after every store.
    const uint32_t* splits = splits_.data();
    const uint32_t half = half_;
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) {
      FindLanes(splits, half, values.data() + i, codes + i);
    }
    float rest[kLanes] = {};
    uint32_t rest_codes[kLanes];
    std::copy(values.begin() + i, values.end(), rest);
    FindLanes(splits, half, rest, rest_codes);
    std::copy_n(rest_codes, values.size() - i, codes + i);
  }

 private:
  // A binary search waits for memory at each step; so many of them go down side by side.
  static constexpr int kLanes = 8;

  static void FindLanes(const uint32_t* splits, uint32_t half, const float* values,
                        uint32_t* codes) {
    uint32_t keys[kLanes];
    uint32_t found[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) keys[lane] = OrderedKey(values[lane]);
    for (; half > 0; half /= 2) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t above = found[lane] + half;
        found[lane] = splits[above - 1] <= keys[lane] ? above : found[lane];
      }
    }
    std::copy_n(found, kLanes, codes);
  }

  uint32_t half_;  // Half of the number of splits after padding to 2^i - 1 and one more.
  std::vector<uint32_t> splits_;
};

// Sums of buckets over one block of values.
struct BucketSums {
  std::vector<double> sums;
  std::vector<uint32_t> counts;
};

// Means over fixed blocks, merged in block order. Elements of a bucket have one sign, so a sum of m
// doubles is off by less than m * 2^-53 of itself; with blocks of at most 2^22 values, that is far
// below half a unit of the float that it is rounded to, and rounding is monotonic: the mean cannot
// leave the range of its bucket.
std::vector<float> MergeMeans(const std::vector<BucketSums>& blocks, size_t num_buckets) {
  std::vector<float> means(num_buckets);
  for (size_t bucket = 0; bucket < num_buckets; ++bucket) {
    double sum = 0;
    uint64_t count = 0;
    for (const BucketSums& block : blocks) {
      sum += block.sums[bucket];
      count += block.counts[bucket];
    }
    means[bucket] = BucketMean(sum, count);
  }
  return means;
}

}  // namespace

BucketCodes QuantizeToBuckets(Span<const float> values, uint32_t max_buckets, Executor* executor) {
  if (values.empty()) return {};
  std::vector<uint32_t> splits = ChooseSplits(values, max_buckets, executor);
  const size_t num_buckets = splits.size() + 1;
  const SplitSearch search(std::move(splits));
  const auto block_elements = static_cast<int64_t>(BucketBlockElements(num_buckets));

  BucketCodes result;
  result.codes.resize(values.size());
  std::vector<BucketSums> blocks(NumBlocks(values.size(), block_elements));
  auto quantize = [&](int64_t block, int64_t begin, int64_t end) {
    search.Find(values.subspan(begin, end - begin), result.codes.data() + begin);
    BucketSums sums{std::vector<double>(num_buckets), std::vector<uint32_t>(num_buckets)};
    for (int64_t i = begin; i < end; ++i) {
      sums.sums[result.codes[i]] += values[i];
      ++sums.counts[result.codes[i]];
    }
    blocks[block] = std::move(sums);
  };
  ForEachBlock(executor, values.size(), quantize, block_elements);
  result.means = MergeMeans(blocks, num_buckets);
  return result;
}

std::vector<MeanRange> MeanRanges(Span<const float> values, uint32_t max_buckets) {
  std::vector<uint32_t> keys(values.size());
  std::transform(values.begin(), values.end(), keys.begin(), OrderedKey);
  std::sort(keys.begin(), keys.end());
  const auto num_values = static_cast<int64_t>(keys.size());
  const bool is_sampled = keys.size() > QuantileSketch::kMaxSample;
  const auto num_negative = std::lower_bound(keys.begin(), keys.end(), kZeroKey) - keys.begin();
  const bool has_both_signs = 0 < num_negative && num_negative < num_values;
  const double share =
      1.0 / (max_buckets - has_both_signs) + (is_sampled ? 2 * QuantileSketch::kMaxRankError : 0);
  // Ranks between a value and the ends of its bucket.
  auto distance = static_cast<int64_t>(std::ceil(share * static_cast<double>(num_values)));
  const auto num_distinct = std::set<uint32_t>(keys.begin(), keys.end()).size();
  if (!is_sampled && num_distinct <= max_buckets) distance = 0;

  std::vector<MeanRange> ranges;
  for (float value : values) {
    const auto equal = std::equal_range(keys.begin(), keys.end(), OrderedKey(value));
    const int64_t sign_begin = IsNegative(value) ? 0 : num_negative;
    const int64_t sign_end = IsNegative(value) ? num_negative : num_values;
    const int64_t first = std::max(sign_begin, equal.first - keys.begin() - distance);
    const int64_t last = std::min(sign_end, equal.second - keys.begin() + distance) - 1;
    ranges.push_back({FloatFromKey(keys[first]), FloatFromKey(keys[last])});
  }
  return ranges;
}

}  // namespace tfcompress
