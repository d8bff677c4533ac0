// The quantizer of ecsq: steps of one width from the least magnitude on, and the search for the
// longest step that keeps an error. FORMAT.md, `ecsq`.
#ifndef TFCOMPRESS_CORE_VALUE_ECSQ_QUANTIZER_H_
#define TFCOMPRESS_CORE_VALUE_ECSQ_QUANTIZER_H_

#include <cstdint>

#include "core/executor.h"
#include "core/half.h"
#include "core/span.h"

namespace tfcompress {

// Level l stands for magnitudes from least + l step on, and decodes to least + (l + center) step.
// With a dead zone, level 0 is what is below `least`, and decodes to 0; others are one higher.
struct EcsqQuantizer {
  uint16_t least_bits = 0;  // bfloat16, as step_bits.
  uint16_t step_bits = 0;
  uint8_t center = 128;  // In 1/256.
  uint8_t dead = 0;      // 1 with a dead zone.

  float least() const { return BFloat16ToFloat(least_bits); }
  float step() const { return BFloat16ToFloat(step_bits); }
  // What bytes off the wire have to be.
  bool IsValid() const;

  // Overwrites `levels` with those of `count` values, at most 2^15.
  void FindLevels(const float* values, size_t count, uint32_t* levels) const;
  // Overwrites `decoded`, of as many elements, with what the levels of `values` decode to.
  void Round(Span<const float> values, Executor* executor, Span<float> decoded) const;
  // Decodes `values`, the ranks of levels with their signs: 0 for the dead zone, 1 for the level
  // above, or the first one.
  void DecodeRanks(Executor* executor, Span<float> values) const;
};

class EcsqSearch {
 public:
  // The ratio of the mean squares of errors and values that is asked for.
  explicit EcsqSearch(double relative_error) : relative_error_(relative_error) {}

  // The longest step that was found to keep the error, in a few trials: with some of the values,
  // then with all. The same for every executor.
  EcsqQuantizer Choose(Span<const float> values, Executor* executor) const;
  // No step of Choose is longer, but for rounding.
  double MostStep(Span<const float> values) const;

 private:
  double relative_error_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_ECSQ_QUANTIZER_H_
