// Encodes and decodes value sections, for the tests of single value codecs.
#ifndef TFCOMPRESS_CC_TESTS_ROUND_TRIP_H_
#define TFCOMPRESS_CC_TESTS_ROUND_TRIP_H_

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/codec.h"

namespace tfcompress {

inline Support All(size_t k) { return Support::Everything(static_cast<uint32_t>(k)); }

inline Bytes MustEncode(const ValueCodec& codec, const std::vector<float>& values,
                        const CodecContext& context = {}) {
  Bytes section;
  const Status status = codec.Encode(values, All(values.size()), context, &section);
  EXPECT_TRUE(status.ok()) << status.message();
  return section;
}

inline Status DecodeTo(const ValueCodec& codec, ByteSpan section, std::vector<float>* values,
                       const CodecContext& context = {}) {
  return codec.Decode(section, All(values->size()), context, Span<float>(*values));
}

// Decodes `section` into NaN, so that a value that is not written fails the test.
inline std::vector<float> MustDecode(const ValueCodec& codec, ByteSpan section, size_t k) {
  std::vector<float> values(k, std::numeric_limits<float>::quiet_NaN());
  const Status status = DecodeTo(codec, section, &values);
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

inline std::vector<float> RoundTrip(const ValueCodec& codec, const std::vector<float>& values,
                                    uint64_t seed = 0) {
  return MustDecode(codec, MustEncode(codec, values, {seed}), values.size());
}

inline bool IsDataLoss(const ValueCodec& codec, ByteSpan section, size_t k) {
  std::vector<float> values(k);
  return DecodeTo(codec, section, &values).code() == StatusCode::kDataLoss;
}

// Expects that value i, rounded stochastically to multiples of steps[i], is unbiased over 4000
// seeds: each mean is within five standard errors, and the sum of their squares is that of as many
// normal variables within five standard deviations.
inline void ExpectUnbiased(const ValueCodec& codec, const std::vector<float>& values,
                           const std::vector<double>& steps) {
  constexpr int kNumSeeds = 4000;
  std::vector<double> sums(values.size());
  for (int seed = 0; seed < kNumSeeds; ++seed) {
    const std::vector<float> decoded = RoundTrip(codec, values, static_cast<uint64_t>(seed));
    for (size_t i = 0; i < values.size(); ++i) sums[i] += decoded[i];
  }
  double sum_of_squares = 0;
  int num_random = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double level = steps[i] == 0 ? 0 : std::fabs(values[i]) / steps[i];
    const double chance = level - std::floor(level);  // Probability of the upper multiple.
    const double error = sums[i] / kNumSeeds - values[i];
    const double deviation = steps[i] * std::sqrt(chance * (1 - chance) / kNumSeeds);
    if (deviation < 1e-4 * steps[i]) {
      EXPECT_NEAR(error, 0, 1e-3 * steps[i]) << values[i];
      continue;
    }
    EXPECT_LT(std::fabs(error), 5 * deviation) << values[i];
    sum_of_squares += error * error / (deviation * deviation);
    ++num_random;
  }
  EXPECT_LT(std::fabs(sum_of_squares - num_random), 5 * std::sqrt(2.0 * num_random));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_ROUND_TRIP_H_
