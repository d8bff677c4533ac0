// poly: piecewise polynomials of the sorted values (DeepReduce section 5, Lemma 1).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "contract_inputs.h"
#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/hash.h"
#include "core/registry.h"
#include "core/value/piecewise_polynomial.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

using Limits = std::numeric_limits<float>;
using Settings = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<const ValueCodec> MakePoly(const Settings& settings = {}) {
  return MakePart<ValueCodec>("poly", settings);
}

double LargestError(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error = std::max(error, std::fabs(double{values[i]} - decoded[i]));
  }
  return error;
}

// Evaluates the magnitudes of a fit in order.
std::vector<float> Evaluate(const std::vector<PolynomialSegment>& segments, uint32_t degree) {
  std::vector<float> values;
  for (const PolynomialSegment& segment : segments) {
    std::vector<float> part(segment.length);
    EvaluateSegment(segment, degree, 0, SerialExecutor(), Span<float>(part));
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

// Samples curve(x) at d values of x from 0 to 1.
template <typename Curve>
std::vector<float> Sampled(size_t d, const Curve& curve) {
  std::vector<float> values(d);
  for (size_t i = 0; i < d; ++i) {
    values[i] = static_cast<float>(curve(static_cast<double>(i) / static_cast<double>(d - 1)));
  }
  return values;
}

// Values with two-sided exponential tails, not sorted.
std::vector<float> Tails(size_t size) {
  Random random(size);
  std::vector<float> values(size);
  for (float& value : values) {
    value = 2 - std::log(random.NextFloat() + 0x1p-25f);
    if (random.Below(2) == 1) value = -value;
  }
  return values;
}

TEST(PolyTest, LemmaOneBoundsPiecewiseLinearFits) {
  const auto curve = [](double x) { return std::exp(-3 * x); };
  const double change = 3 - 3 * std::exp(-3.0);  // Var(C') on [0, 1], the lemma's M.
  const std::vector<float> magnitudes = Sampled(20001, curve);
  for (uint32_t p : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
    const auto segments = FitSegments(magnitudes, 1, p, SerialExecutor());
    EXPECT_LE(segments.size(), p);
    EXPECT_LE(LargestError(magnitudes, Evaluate(segments, 1)), 2 * change / (p * p)) << p;
  }
}

TEST(PolyTest, TheSuggestionIsLemmaOnesForAUnitCurve) {
  // p = ceil(2 sqrt(M)) with M = 3 (1 - e^-3) = 2.85, whatever the unit of the values.
  for (double unit : {1e-20, 1e-3, 1.0, 1e30}) {
    const auto curve = [=](double x) { return unit * std::exp(-3 * x); };
    EXPECT_EQ(LemmaOneSegments(Sampled(1001, curve)), 4u) << unit;
  }
  EXPECT_EQ(LemmaOneSegments(std::vector<float>{5.0f}), 1u);
  EXPECT_EQ(LemmaOneSegments(std::vector<float>(100, 0.0f)), 1u);
  EXPECT_EQ(LemmaOneSegments(std::vector<float>(100, Limits::denorm_min())), 1u);
  EXPECT_EQ(LemmaOneSegments(Sampled(1001, [](double x) { return 1 - x / 2; })), 1u);
}

TEST(PolyTest, FindsPolynomialsOfItsDegree) {
  const auto curve = [](double x) { return 3 - x - 0.5 * std::pow(x, 5) + 0.4 * std::pow(x, 3); };
  for (size_t d : {6u, 7u, 50u, 70000u}) {
    const std::vector<float> magnitudes = Sampled(d, curve);
    const auto segments = FitSegments(magnitudes, 5, 1, SerialExecutor());
    EXPECT_LT(LargestError(magnitudes, Evaluate(segments, 5)), 1e-6) << d;
  }
}

TEST(PolyTest, IsExactWhereThereAreAsManyCoefficientsAsPoints) {
  for (size_t d = 2; d <= 6; ++d) {
    const std::vector<float> magnitudes = Sampled(d, [](double x) { return 1 / (x + 0.1); });
    const auto segments = FitSegments(magnitudes, 5, 1, SerialExecutor());
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_LT(LargestError(magnitudes, Evaluate(segments, 5)), 5e-6) << d;
  }
}

TEST(PolyTest, SplitsAtTheElbow) {
  std::vector<float> magnitudes;
  for (int i = 0; i < 100; ++i) magnitudes.push_back(static_cast<float>(1100 - 10 * i));
  for (int i = 0; i < 400; ++i) magnitudes.push_back(static_cast<float>(100 - 0.125 * i));
  const auto segments = FitSegments(magnitudes, 1, 2, SerialExecutor());
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_NEAR(segments[0].length, 100, 1);
  EXPECT_LT(LargestError(magnitudes, Evaluate(segments, 1)), 4);
}

TEST(PolyTest, AnOutlierGetsASegmentOfItsOwn) {
  std::vector<float> values = Tails(1000);
  values[321] = 1e30f;
  const std::vector<float> decoded = RoundTrip(*MakePoly(), values);
  EXPECT_EQ(decoded[321], 1e30f);
  values[321] = 0;
  std::vector<float> others = decoded;
  others[321] = 0;
  EXPECT_LT(RelativeError(values, others), 0.01);
}

TEST(PolyTest, MoreSegmentsAndHigherDegreesFitBetter) {
  const std::vector<float> values = Tails(100000);
  const auto error = [&](const std::string& degree, const std::string& segments) {
    return RelativeError(
        values, RoundTrip(*MakePoly({{"degree", degree}, {"segments", segments}}), values));
  };
  EXPECT_LT(error("5", "0"), 0.002);
  EXPECT_LT(error("5", "8"), error("5", "2"));
  EXPECT_LT(error("5", "2"), error("5", "1"));
  EXPECT_LT(error("5", "4"), error("1", "4"));
  EXPECT_LT(error("8", "256"), 0.0003);
}

TEST(PolyTest, WorkedExample) {
  const Bytes expected = {0x01, 0,    0,    0,  // degree
                          0x01, 0,    0,    0,  // one segment
                          0x02, 0,    0,    0,    0,    0,    0x00, 0x40, 0, 0,
                          0x40, 0x40, 0,    0,    0,    0x3F, 0,    0,    0, 0xBF,  // 1/2 - t/2
                          0x01, 0,    0,    0,                                      // one segment
                          0x03, 0,    0,    0,    0,    0,    0x80, 0x3F, 0, 0,
                          0xA0, 0x40, 0x55, 0x55, 0x15, 0x3F, 0,    0,    0, 0xBF,  // 7/12 - t/2
                          0x08, 0x35};
  const auto codec = MakePoly({{"degree", "1"}});
  const std::vector<float> values = {3, 2, -1, -5, -4};
  EXPECT_EQ(MustEncode(*codec, values), expected);
  const std::vector<float> decoded = RoundTrip(*codec, values);
  EXPECT_EQ(decoded[0], 3);
  EXPECT_EQ(decoded[1], 2);
  EXPECT_FLOAT_EQ(decoded[2], -4 / 3.0f);
  EXPECT_EQ(decoded[3], -5);
  EXPECT_FLOAT_EQ(decoded[4], -10 / 3.0f);
}

TEST(PolyTest, RejectsDegreesLengthsRangesAndCoefficients) {
  const auto codec = MakePoly({{"degree", "1"}});
  const Bytes section = MustEncode(*codec, {3, 2, -1, -5, -4});
  const auto is_rejected = [&](size_t offset, auto value) {
    Bytes bad = section;
    StoreUnaligned(&bad[offset], value);
    std::vector<float> decoded(5);
    return codec->Decode(bad, All(5), {}, Span<float>(decoded)).code() == StatusCode::kDataLoss;
  };
  EXPECT_TRUE(is_rejected(0, uint32_t{9}));
  EXPECT_TRUE(is_rejected(4, uint32_t{0xFFFFFFFF}));  // Segments.
  EXPECT_TRUE(is_rejected(8, uint32_t{0}));           // Lengths that do not sum to k.
  EXPECT_TRUE(is_rejected(8, uint32_t{3}));
  EXPECT_TRUE(is_rejected(12, 3.5f));  // The least magnitude above the largest.
  EXPECT_TRUE(is_rejected(12, -1.0f));
  EXPECT_TRUE(is_rejected(16, Limits::infinity()));
  EXPECT_TRUE(is_rejected(20, Limits::quiet_NaN()));
  EXPECT_TRUE(is_rejected(section.size() - 2, uint8_t{0x3F}));  // Rank 7 of 5.
}

// GPUs read segments sequentially: their number is limited.
TEST(PolyTest, RejectsMoreSegmentsThanASignMayHave) {
  const auto codec = MakePoly();
  for (uint32_t num_segments : {256u, 257u}) {
    Bytes section;
    ByteWriter writer(&section);
    writer.Write(uint32_t{1});
    writer.Write(num_segments);
    for (uint32_t i = 0; i < num_segments; ++i) {
      writer.Write(uint32_t{1});
      for (int j = 0; j < 3; ++j) writer.Write(0.0f);
    }
    writer.Write(uint32_t{0});
    const int num_bits = BitsFor(num_segments);
    section.resize(section.size() + PackedBytes(num_segments, num_bits), 0);
    std::vector<float> decoded(num_segments);
    EXPECT_EQ(codec->Decode(section, All(num_segments), {}, Span<float>(decoded)).code(),
              num_segments == 256 ? StatusCode::kOk : StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace tfcompress
