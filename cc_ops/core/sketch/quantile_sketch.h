// Quantiles of many floats from a sorted sample (SketchML 3.2, Step 1).
//
// Up to 65,536 values the sample is all of them and the quantiles are exact. Above, it is one
// uniform draw from each of 65,536 strata of equal length, which never has more variance than as
// many independent draws; for those, the DKW inequality bounds the error of every rank at once by
// 0.64 % of the count with probability 99 %. A sketch that reads every value (KLL, at about 30 ns
// each) is no more exact at this size and far too slow to run in every step.
#ifndef TFCOMPRESS_CORE_SKETCH_QUANTILE_SKETCH_H_
#define TFCOMPRESS_CORE_SKETCH_QUANTILE_SKETCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/hash.h"
#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

class QuantileSketch {
 public:
  static constexpr size_t kMaxSample = 65536;
  // Of all ranks of a sample, as a share of the count, with a probability of 99 %.
  static constexpr double kMaxRankError = 0.0064;

  // Samples finite values. Always draws the same positions for the same number of values.
  QuantileSketch(Span<const float> values, Executor* executor);

  // Which of more than kMaxSample values is the i-th of the sample: a draw from the i-th stratum.
  TFC_HOST_DEVICE static uint64_t SamplePosition(uint64_t i, uint64_t num_values) {
    const uint64_t begin = num_values * i / kMaxSample;
    const uint64_t end = num_values * (i + 1) / kMaxSample;
    return begin + Random(kSampleSeed, i).Below(static_cast<uint32_t>(end - begin));
  }

  // The sample as OrderedKeys, ascending, with repetitions.
  Span<const uint32_t> sorted_keys() const { return sorted_keys_; }

  // Cuts the sample into at most `num_parts` parts of about equal count: the strictly increasing
  // least keys of every part but the first. A sample of at most `num_parts` distinct values gives
  // each its own part.
  std::vector<uint32_t> Splits(size_t num_parts) const;

 private:
  // Only the encoder samples, so the seed is no part of the format.
  static constexpr uint64_t kSampleSeed = 0x5EED;

  std::vector<uint32_t> sorted_keys_;
  size_t num_distinct_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_QUANTILE_SKETCH_H_
