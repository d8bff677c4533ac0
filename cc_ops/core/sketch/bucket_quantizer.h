// Quantile-bucket quantification (SketchML 3.2): buckets of about equal count, each represented by
// the true mean of its values.
#ifndef TFCOMPRESS_CORE_SKETCH_BUCKET_QUANTIZER_H_
#define TFCOMPRESS_CORE_SKETCH_BUCKET_QUANTIZER_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/span.h"

namespace tfcompress {

struct BucketCodes {
  std::vector<float> means;     // Non-decreasing, one a bucket.
  std::vector<uint32_t> codes;  // The bucket of each value.
};

// Puts finite values into at most `max_buckets` >= 2 buckets. No bucket is empty, and none holds
// negative values along with zeros or positive ones, so that means[codes[i]] has the sign of
// values[i]; it lies between the least and the greatest value of its bucket. Values with at most
// `max_buckets` distinct ones among at most QuantileSketch::kMaxSample come out exact.
BucketCodes QuantizeToBuckets(Span<const float> values, uint32_t max_buckets, Executor* executor);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_BUCKET_QUANTIZER_H_
