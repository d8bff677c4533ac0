#include "core/sketch/sign_split.h"

#include <cmath>

#include "core/float_order.h"

namespace tfcompress {

std::array<SignPart, kNumSigns> SplitSigns(const Support& support, Span<const float> values) {
  std::array<SignPart, kNumSigns> parts;
  std::array<size_t, kNumSigns> sizes = {};
  for (float value : values) ++sizes[IsNegative(value)];
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    // One more, for the extra store after the last element.
    parts[sign].keys.resize(sizes[sign] + 1);
    parts[sign].magnitudes.resize(sizes[sign] + 1);
  }
  // Every element is stored on both sides, and kept on one, since a branch would be mispredicted
  // half of the time.
  size_t num_negative = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t num_nonnegative = i - num_negative;
    const float magnitude = std::fabs(values[i]);
    parts[0].keys[num_nonnegative] = parts[1].keys[num_negative] = support[i];
    parts[0].magnitudes[num_nonnegative] = parts[1].magnitudes[num_negative] = magnitude;
    num_negative += IsNegative(values[i]);
  }
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    parts[sign].keys.resize(sizes[sign]);
    parts[sign].magnitudes.resize(sizes[sign]);
  }
  return parts;
}

}  // namespace tfcompress
