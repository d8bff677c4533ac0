// Quantile-bucket quantification (SketchML 3.2): buckets of about equal count, each represented by
// the true mean of its values.
#ifndef TFCOMPRESS_CORE_SKETCH_BUCKET_QUANTIZER_H_
#define TFCOMPRESS_CORE_SKETCH_BUCKET_QUANTIZER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/executor.h"
#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

// What a code of 16 bits can tell apart.
inline constexpr uint32_t kMaxQuantileBuckets = 65536;

// Where the splits are: keys that differ in their lowest `shift` bits alone are an interval.
struct SplitIntervals {
  int shift = 0;
  uint32_t first = 0;  // Intervals of the first and of the last split.
  uint32_t last = 0;
  std::vector<uint16_t> num_below;  // Splits in the intervals before each of them.
  int num_steps = 0;                // Of a binary search within an interval.
};

// Sums of the buckets over one block of values.
struct BucketSums {
  explicit BucketSums(size_t num_buckets) : sums(num_buckets), counts(num_buckets) {}

  // Adds values[i] to the bucket codes[i].
  void Add(const float* values, const uint32_t* codes, int64_t num_values);

  std::vector<double> sums;
  std::vector<uint32_t> counts;
};

// Means of the buckets, from the sums of blocks of BucketBlockElements values, merged in the order
// of the blocks, of which there is one at least.
std::vector<float> MeansOf(const std::vector<BucketSums>& blocks);

// Puts values into buckets as QuantizeToBuckets does, a chunk at a time.
class BucketQuantizer {
 public:
  static constexpr int64_t kChunk = 4096;

  // Chooses the buckets of these values, of which there is one at least. They may be the sample
  // that a QuantileSketch would take of more values.
  BucketQuantizer(Span<const float> values, uint32_t max_buckets, Executor* executor);

  size_t num_buckets() const { return num_splits_ + 1; }
  // codes[i] = the bucket of values[i], 0 <= i < count <= kChunk.
  void Find(const float* values, int64_t count, uint32_t* codes) const;
  // Returns the means of the buckets, and hands the codes of the same values to
  // use_codes(begin, end, codes), at most kChunk at a time, from several threads. `begin` is a
  // multiple of kChunk.
  std::vector<float> Quantize(Span<const float> values, Executor* executor,
                              const std::function<void(int64_t begin, int64_t end,
                                                       const uint32_t* codes)>& use_codes) const;

 private:
  std::vector<uint32_t> splits_;  // And keys above that of every finite float.
  size_t num_splits_;
  SplitIntervals intervals_;
};

struct BucketCodes {
  std::vector<float> means;     // Non-decreasing, one a bucket.
  std::vector<uint32_t> codes;  // The bucket of each value.
};

// Puts finite values into at most `max_buckets` >= 2 buckets. No bucket is empty, and none holds
// negative values along with zeros or positive ones, so that means[codes[i]] has the sign of
// values[i]; it lies between the least and the greatest value of its bucket. Values with at most
// `max_buckets` distinct ones among at most QuantileSketch::kMaxSample come out exact.
BucketCodes QuantizeToBuckets(Span<const float> values, uint32_t max_buckets, Executor* executor);

// Where the mean of a value's bucket may lie.
struct MeanRange {
  float least;
  float greatest;

  double MaxDistance(float value) const {
    return std::max(double{value} - double{least}, double{greatest} - double{value});
  }
};

// The ranges that QuantizeToBuckets promises for each value, by its rank alone: the values of its
// sign that are less than a bucket's count away. With more than QuantileSketch::kMaxSample values
// they hold with a probability of 99 %. For tests of bounds: sorts all values.
std::vector<MeanRange> MeanRanges(Span<const float> values, uint32_t max_buckets);

// Values of a block whose sums, one for each bucket, are added up in their order before those of
// the next block: blocks grow with the number of buckets, for at least 64 values a sum.
TFC_HOST_DEVICE inline uint64_t BucketBlockElements(uint64_t num_buckets) {
  return static_cast<uint64_t>(kBlockElements) * ((num_buckets + 1023) / 1024);
}

// What stands for the `count` values of a bucket.
TFC_HOST_DEVICE inline float BucketMean(double sum, uint64_t count) {
  return static_cast<float>(sum / static_cast<double>(count));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_BUCKET_QUANTIZER_H_
