#include "core/sketch/bucket_quantizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/float_order.h"
#include "core/simd.h"
#include "core/sketch/quantile_sketch.h"

namespace tfcompress {
namespace {

// Looks at all values only where the sample does not tell.
bool HasBothSigns(Span<const float> values, const QuantileSketch& sketch, Executor* executor) {
  const Span<const uint32_t> sample = sketch.sorted_keys();
  if (sample[0] < kZeroKey && sample[sample.size() - 1] >= kZeroKey) return true;
  std::vector<int64_t> num_negative(NumBlocks(values.size()));
  ForEachBlock(executor, values.size(), [&](int64_t block, int64_t begin, int64_t end) {
    uint32_t negative = 0;
    Vectorized([=, x = values.data(), out = &negative] {
      uint32_t count = 0;
      for (int64_t i = begin; i < end; ++i) count += IsNegative(x[i]);
      *out = count;
    });
    num_negative[block] = negative;
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
  if (!HasBothSigns(values, sketch, executor)) return splits;
  SplitAtZero(sketch, &splits);
  if (splits.size() == max_buckets) {
    splits = sketch.Splits(max_buckets - 1);
    SplitAtZero(sketch, &splits);
  }
  return splits;
}

// Intervals for `num_splits` splits and `num_values` values: so many that most have one split at
// most, and no more than values. Of the table of 256 buckets, the part that floats of a few
// magnitudes need stays in the L1 cache.
int IntervalShift(uint32_t first, uint32_t last, size_t num_splits, size_t num_values) {
  const auto max_intervals =
      static_cast<uint32_t>(std::min<size_t>({num_values, 256 * num_splits, 65536}));
  int shift = 0;
  while ((last >> shift) - (first >> shift) >= max_intervals) ++shift;
  return shift;
}

// The splits in each interval of keys that have all but the lowest `shift` bits in common.
SplitIntervals IntervalsOf(const std::vector<uint32_t>& splits, size_t num_values) {
  SplitIntervals intervals;
  if (splits.empty()) return intervals;
  intervals.shift = IntervalShift(splits.front(), splits.back(), splits.size(), num_values);
  intervals.first = splits.front() >> intervals.shift;
  intervals.last = splits.back() >> intervals.shift;
  intervals.num_below.resize(intervals.last - intervals.first + 1);
  size_t split = 0;
  for (size_t i = 0; i < intervals.num_below.size(); ++i) {
    intervals.num_below[i] = static_cast<uint16_t>(split);
    while (split < splits.size() && splits[split] >> intervals.shift == intervals.first + i)
      ++split;
    const auto num_splits = static_cast<uint32_t>(split) - intervals.num_below[i];
    while (1u << intervals.num_steps <= num_splits) ++intervals.num_steps;
  }
  return intervals;
}

}  // namespace

void BucketSums::Add(const float* values, const uint32_t* codes, int64_t num_values) {
  double* const bucket_sums = sums.data();
  uint32_t* const bucket_counts = counts.data();
  for (int64_t i = 0; i < num_values; ++i) {
    bucket_sums[codes[i]] += values[i];
    ++bucket_counts[codes[i]];
  }
}

// Elements of a bucket have one sign, so a sum of m doubles is off by less than m * 2^-53 of
// itself; with blocks of at most 2^22 values, that is far below half a unit of the float that it is
// rounded to, and rounding is monotonic: the mean cannot leave the range of its bucket.
std::vector<float> MeansOf(const std::vector<BucketSums>& blocks) {
  std::vector<float> means(blocks.front().sums.size());
  for (size_t bucket = 0; bucket < means.size(); ++bucket) {
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

BucketQuantizer::BucketQuantizer(Span<const float> values, uint32_t max_buckets, Executor* executor)
    : splits_(ChooseSplits(values, max_buckets, executor)), num_splits_(splits_.size()) {
  intervals_ = IntervalsOf(splits_, values.size());
  // A step may look past the last split.
  splits_.resize(num_splits_ + (size_t{1} << intervals_.num_steps), 0xFFFFFFFFu);
}

void BucketQuantizer::Find(const float* values, int64_t count, uint32_t* codes) const {
  if (num_splits_ == 0) {
    std::fill(codes, codes + count, 0);
    return;
  }
  const uint32_t first = intervals_.first << intervals_.shift;
  const uint32_t last = intervals_.last << intervals_.shift;
  const uint32_t* const splits = splits_.data();
  const uint16_t* const num_below = intervals_.num_below.data();
  uint32_t keys[kChunk];
  Vectorized([=, shift = intervals_.shift, keys = keys + 0] {
    for (int64_t i = 0; i < count; ++i) {
      keys[i] = OrderedKey(values[i]);
      codes[i] = (std::min(std::max(keys[i], first), last) - first) >> shift;
    }
  });
  // A product, since a branch would be guessed wrong half of the time.
  const auto step = [=](uint32_t code, uint32_t half, uint32_t key) {
    return code + half * (splits[code + half - 1] <= key);
  };
  uint32_t half = (1u << intervals_.num_steps) / 2;
  for (int64_t i = 0; i < count; ++i) codes[i] = step(num_below[codes[i]], half, keys[i]);
  while (half /= 2) {
    for (int64_t i = 0; i < count; ++i) codes[i] = step(codes[i], half, keys[i]);
  }
}

std::vector<float> BucketQuantizer::Quantize(
    Span<const float> values, Executor* executor,
    const std::function<void(int64_t begin, int64_t end, const uint32_t* codes)>& use_codes) const {
  const auto block_elements = static_cast<int64_t>(BucketBlockElements(num_buckets()));
  std::vector<BucketSums> blocks(NumBlocks(values.size(), block_elements), BucketSums(0));
  const auto quantize = [&](int64_t block, int64_t begin, int64_t block_end) {
    BucketSums sums(num_buckets());
    uint32_t codes[kChunk];
    for (; begin < block_end; begin += kChunk) {
      const int64_t end = std::min(block_end, begin + kChunk);
      Find(values.data() + begin, end - begin, codes);
      sums.Add(values.data() + begin, codes, end - begin);
      use_codes(begin, end, codes);
    }
    blocks[block] = std::move(sums);
  };
  ForEachBlock(executor, values.size(), quantize, block_elements);
  return MeansOf(blocks);
}

BucketCodes QuantizeToBuckets(Span<const float> values, uint32_t max_buckets, Executor* executor) {
  if (values.empty()) return {};
  const BucketQuantizer quantizer(values, max_buckets, executor);
  BucketCodes result;
  result.codes.resize(values.size());
  result.means =
      quantizer.Quantize(values, executor, [&](int64_t begin, int64_t end, const uint32_t* codes) {
        std::copy(codes, codes + (end - begin), result.codes.data() + begin);
      });
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
