// The device fits the core's segments: lengths, ranges, and coefficients to the last bit.
#include "cuda/polynomial_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "contract_inputs.h"
#include "core/hash.h"
#include "core/value/piecewise_polynomial.h"
#include "core/value/sort_key.h"
#include "device_encode.h"
#include "device_inputs.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {
namespace {

// Room for more values than there are.
constexpr uint32_t kSpare = 3000;

using Segments = std::vector<PolynomialSegment>;

Segments FitOfCore(const std::vector<uint32_t>& keys, bool nonnegative,
                   const PolynomialConfig& config) {
  std::vector<float> magnitudes;
  for (uint32_t key : keys)
    if (IsNonnegativeKey(key) == nonnegative) magnitudes.push_back(MagnitudeOfKey(key));
  if (magnitudes.empty()) return {};
  uint32_t segments = config.segments;
  if (segments == 0) {
    segments = SuggestedSegments(magnitudes.size(), [&](size_t i) { return magnitudes[i]; });
  }
  return FitSegments(magnitudes, config.degree, segments, SerialExecutor());
}

struct FitOfDevice {
  std::vector<SectionSegment> segments;
  std::vector<uint32_t> num_of_sign;
  uint64_t num_bytes;
};

FitOfDevice Fit(const std::vector<uint32_t>& keys, const PolynomialConfig& config,
                const Stream& stream) {
  const auto count = static_cast<uint32_t>(keys.size());
  const auto num_nonnegative =
      static_cast<uint32_t>(std::count_if(keys.begin(), keys.end(), IsNonnegativeKey));
  const DeviceVector<uint32_t> keys_dev(keys, stream), count_dev({count}, stream),
      num_nonnegative_dev({num_nonnegative}, stream);
  FitBuffers buffers;
  Workspace measure;
  TakeFitBuffers(config, count + kSpare, &measure, &buffers);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  TakeFitBuffers(config, count + kSpare, &carve, &buffers);
  ExpectOk(FitPolynomials(keys_dev.data_dev(), count_dev.data_dev(), num_nonnegative_dev.data_dev(),
                          buffers, stream.get()));
  FitOfDevice fit;
  fit.num_of_sign = Read(buffers.table.num_of_sign_dev, kNumSigns, stream);
  fit.segments = Read(buffers.table.segments_dev, fit.num_of_sign[0] + fit.num_of_sign[1], stream);
  fit.num_bytes = Read(buffers.num_bytes_dev, 1, stream)[0];
  return fit;
}

bool AreSame(const PolynomialSegment& a, const PolynomialSegment& b) {
  return a.length == b.length && FloatBits(a.range.least) == FloatBits(b.range.least) &&
         FloatBits(a.range.largest) == FloatBits(b.range.largest) &&
         std::memcmp(a.coefficients, b.coefficients, sizeof(a.coefficients)) == 0;
}

void ExpectSameFit(const std::vector<float>& values, const PolynomialConfig& config,
                   const Stream& stream) {
  std::vector<uint32_t> keys;
  for (float value : values) keys.push_back(SortKey(value));
  std::sort(keys.begin(), keys.end());
  const FitOfDevice actual = Fit(keys, config, stream);
  uint32_t begin = 0;
  size_t s = 0;
  uint64_t offset = 4;
  for (const bool nonnegative : {true, false}) {
    const Segments expected = FitOfCore(keys, nonnegative, config);
    ASSERT_EQ(actual.num_of_sign[nonnegative ? 0 : 1], expected.size());
    offset += 4;
    for (const PolynomialSegment& segment : expected) {
      SCOPED_TRACE(testing::Message() << "segment " << s);
      ASSERT_LT(s, actual.segments.size());
      ASSERT_EQ(actual.segments[s].begin, begin);
      ASSERT_EQ(actual.segments[s].sign_bit, nonnegative ? 0 : kFloatSignBit);
      ASSERT_EQ(actual.segments[s].offset, offset);
      ASSERT_TRUE(AreSame(actual.segments[s].segment, segment));
      begin += segment.length;
      offset += PolynomialSegment::NumBytes(segment.NumCoefficients(config.degree));
      ++s;
    }
  }
  ASSERT_EQ(actual.num_bytes, offset);
}

TEST(PolynomialFit, FitsEveryInput) {
  const Stream stream;
  uint64_t seed = 1;
  for (const Input& input : Inputs()) {
    for (size_t n : {0, 1, 2, 3, 7, 130, 2000}) {
      for (const PolynomialConfig& config :
           {PolynomialConfig{5, 0}, PolynomialConfig{1, 1}, PolynomialConfig{8, 3}}) {
        SCOPED_TRACE(testing::Message() << input.name << ", " << n << " values, degree "
                                        << config.degree << ", " << config.segments);
        ASSERT_NO_FATAL_FAILURE(ExpectSameFit(input.make(n, ++seed), config, stream));
      }
    }
  }
}

// Of equal distances the first wins, within a piece and among pieces.
TEST(PolynomialFit, SplitsTiesAsTheCoreDoes) {
  const Stream stream;
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<float> values(1 + random.Below(300));
    const uint32_t num_distinct = 1 + random.Below(12);
    for (float& value : values) value = static_cast<float>(random.Below(num_distinct)) - 4;
    SCOPED_TRACE(testing::Message() << "round " << round);
    const PolynomialConfig config = {1 + random.Below(8), 1 + random.Below(20)};
    ASSERT_NO_FATAL_FAILURE(ExpectSameFit(values, config, stream));
  }
}

TEST(PolynomialFit, FitsTheMaximumOfSegments) {
  const Stream stream;
  ASSERT_NO_FATAL_FAILURE(ExpectSameFit(NormalValues(20000, 5), {1, kMaxSegments}, stream));
}

// Segments of several tiles, parts and blocks; more values of one sign than of the other.
TEST(PolynomialFit, FitsManyValues) {
  const Stream stream;
  std::vector<float> values = NormalValues(3 * kBlockElements + 1000, 7);
  for (size_t i = 0; i < values.size(); ++i)
    if (i % 8 != 0) values[i] = std::fabs(values[i]);
  ASSERT_NO_FATAL_FAILURE(ExpectSameFit(values, {5, 2}, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectSameFit(values, {3, 1}, stream));
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
