// qsgd, and the rounding noise of stochastic codecs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "core/pipeline.h"
#include "core/value/rounding_noise.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

std::unique_ptr<const ValueCodec> Qsgd(const std::string& bits, const std::string& bucket) {
  return MakePart<ValueCodec>("qsgd", {{"bits", bits}, {"bucket", bucket}});
}

double Norm(Span<const float> values) {
  double sum = 0;
  for (float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

TEST(RoundingNoiseTest, IsUniformAndIndependent) {
  constexpr int kSize = 100000;
  std::vector<uint32_t> noise(kSize);
  RoundingNoise(3).Fill(0, kSize, noise.data());
  double sum = 0, product[3] = {};
  const auto centred = [&](int i) { return std::ldexp(noise[i], -RoundingNoise::kBits) - 0.5; };
  for (int i = 0; i + 3 < kSize; ++i) {
    ASSERT_LT(noise[i], 1u << RoundingNoise::kBits);
    sum += centred(i);
    for (int lag = 1; lag <= 3; ++lag) product[lag - 1] += centred(i) * centred(i + lag);
  }
  const double deviation = std::sqrt(kSize / 12.0);
  EXPECT_LT(std::fabs(sum), 4 * deviation);
  for (double correlation : product) EXPECT_LT(std::fabs(correlation), 4 * deviation / 12);
}

TEST(RoundingNoiseTest, DependsOnPositionsOnly) {
  std::vector<uint32_t> all(101), part(52);
  RoundingNoise(3).Fill(0, 100, all.data());
  RoundingNoise(3).Fill(50, 101, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.begin() + 50, all.begin() + 50));
}

// QSGD's Lemma 3.1: unbiased, with at most s levels of norm / s.
TEST(QsgdTest, IsUnbiased) {
  const std::vector<float> values = NormalValues(100, 5);
  for (const std::string bits : {"2", "4", "8"}) {
    const int num_levels = (1 << (std::stoi(bits) - 1)) - 1;
    std::vector<double> steps;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t begin = i / 16 * 16;
      const Span<const float> bucket(&values[begin], std::min<size_t>(16, values.size() - begin));
      steps.push_back(Norm(bucket) / num_levels);
    }
    SCOPED_TRACE(bits + " bits");
    ExpectUnbiased(*Qsgd(bits, "16"), values, steps);
  }
}

TEST(QsgdTest, RoundsToANeighbouringLevel) {
  const std::vector<float> values = NormalValues(3000, 6);
  const std::vector<float> decoded = RoundTrip(*MakePart<ValueCodec>("qsgd"), values);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t begin = i / 512 * 512;
    const double step =
        Norm({&values[begin], std::min<size_t>(512, values.size() - begin)}) / 63 * (1 + 1e-6);
    ASSERT_LE(std::fabs(double{decoded[i]} - values[i]), step);
    const double level = std::fabs(decoded[i]) / step;
    ASSERT_NEAR(level, std::round(level), 1e-3);
    ASSERT_FALSE(decoded[i] != 0 && std::signbit(decoded[i]) != std::signbit(values[i]));
  }
}

// Buckets that are no divisor of a chunk, and longer than one: a chunk is then several, or as many
// as it takes for codes to begin at a byte.
TEST(QsgdTest, TakesBucketsOfAnyLengthOutOfTheMemory) {
  ThreadExecutor threads(3);
  const std::vector<float> gradient = NormalValues(200001, 7);
  for (const size_t bucket : {size_t{3}, size_t{1000}, size_t{30001}}) {
    const std::string spec = "residual|dense|raw|qsgd:bucket=" + std::to_string(bucket);
    const auto compressor = Compressor::FromSpec(spec).value();
    std::vector<float> residual(gradient.size());
    float* const slots[] = {residual.data()};
    Bytes bytes;
    const GradientView view = {gradient.data(), DType::kFloat32, gradient.size()};
    const Span<float* const> memory(slots, 1);
    ASSERT_TRUE(EncodeFrame(*compressor, view, memory, {1, &threads}, &bytes).ok());
    ByteReader reader(bytes);
    Frame frame;
    SparseTensor decoded;
    ASSERT_TRUE(ReadFrame(&reader, &frame).ok());
    ASSERT_TRUE(DecodeFrame(frame, &threads, &decoded).ok());
    for (size_t begin = 0; begin < gradient.size(); begin += bucket) {
      const size_t size = std::min(bucket, gradient.size() - begin);
      const double step = Norm({&gradient[begin], size}) / 63 * (1 + 1e-6);
      for (size_t i = begin; i < begin + size; ++i) {
        ASSERT_LE(std::fabs(double{decoded.values[i]} - gradient[i]), step) << spec << ", " << i;
        ASSERT_EQ(residual[i], gradient[i] - decoded.values[i]) << spec << ", " << i;
      }
    }
  }
}

TEST(QsgdTest, SeedsRoundDifferently) {
  const auto codec = MakePart<ValueCodec>("qsgd");
  const std::vector<float> values = NormalValues(1000, 7);
  EXPECT_EQ(RoundTrip(*codec, values, 1), RoundTrip(*codec, values, 1));
  EXPECT_NE(RoundTrip(*codec, values, 1), RoundTrip(*codec, values, 2));
}

TEST(QsgdTest, KeepsWhatIsAWholeLevel) {
  const auto codec = MakePart<ValueCodec>("qsgd");
  EXPECT_EQ(RoundTrip(*codec, {-7.25f}), (std::vector<float>{-7.25f}));
  EXPECT_EQ(RoundTrip(*codec, {0.0f, -0.0f, 3e38f, 0.0f}), (std::vector<float>{0, 0, 3e38f, 0}));
  EXPECT_FALSE(std::signbit(RoundTrip(*codec, {-0.0f, 1.0f})[0]));
}

TEST(QsgdTest, HugeNormsSaturate) {
  const float largest = std::numeric_limits<float>::max();
  const auto codec = Qsgd("8", "512");
  const std::vector<float> values(100, largest);  // Their norm is ten times the largest float.
  EXPECT_EQ(RoundTrip(*codec, values), values);
}

TEST(QsgdTest, OneHugeValueSpoilsItsBucketOnly) {
  std::vector<float> values = NormalValues(2048, 8);
  values[700] = 1e30f;
  const std::vector<float> decoded = RoundTrip(*MakePart<ValueCodec>("qsgd"), values);
  EXPECT_EQ(decoded[700], 1e30f);
  EXPECT_EQ(decoded[699], 0);
  for (size_t i = 1024; i < 1536; ++i) EXPECT_NEAR(decoded[i], values[i], 0.5);
}

// The example of FORMAT.md.
TEST(QsgdTest, Example) {
  const auto codec = Qsgd("4", "2");
  const Bytes expected = {0x04, 0x02, 0, 0, 0, 0, 0, 0xA0, 0x40, 0, 0, 0xE0, 0x40, 0xE5, 0x07};
  EXPECT_EQ(MustEncode(*codec, {3.0f, -4.0f, 7.0f}), expected);
  EXPECT_EQ(MustDecode(*codec, expected, 3), (std::vector<float>{3.5714286f, -4.2857143f, 7}));
}

TEST(QsgdTest, RejectsBadHeaders) {
  const auto codec = Qsgd("4", "2");
  const Bytes section = MustEncode(*codec, {3.0f, -4.0f, 7.0f});
  const auto is_rejected = [&](size_t offset, auto value) {
    Bytes bad = section;
    StoreUnaligned(&bad[offset], value);
    return IsDataLoss(*codec, bad, 3);
  };
  EXPECT_TRUE(is_rejected(0, uint8_t{1}));
  EXPECT_TRUE(is_rejected(0, uint8_t{9}));
  EXPECT_TRUE(is_rejected(1, uint32_t{0}));
  EXPECT_TRUE(is_rejected(1, uint32_t{1}));
  EXPECT_TRUE(is_rejected(5, -1.0f));
  EXPECT_TRUE(is_rejected(5, std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(is_rejected(5, std::nanf("")));
}

}  // namespace
}  // namespace tfcompress
