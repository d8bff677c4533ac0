// lossless: every bit of every finite float, in no more bytes than they have, and in fewer where
// exponents, signs or trailing zeros can be foretold.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/float_order.h"
#include "core/half.h"
#include "core/hash.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

std::unique_ptr<const ValueCodec> Lossless() { return MakePart<ValueCodec>("lossless", {}); }

// Encodes and decodes; returns the bits that a value takes.
double BitsOf(const std::vector<float>& values, const Support& support, Grid grid = {}) {
  const auto codec = Lossless();
  Bytes section;
  EXPECT_TRUE(codec->Encode(values, support, {0, SerialExecutor(), grid}, &section).ok());
  EXPECT_LE(section.size(), codec->MaxEncodedBytes(static_cast<uint32_t>(values.size())));
  std::vector<float> decoded(values.size(), std::nanf(""));
  const Status status = codec->Decode(section, support, {}, Span<float>(decoded));
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(SameBits(decoded, values));
  return 8.0 * static_cast<double>(section.size()) / static_cast<double>(values.size());
}
double BitsOf(const std::vector<float>& values, Grid grid = {}) {
  return BitsOf(values, All(values.size()), grid);
}

// Any bits but those of NaN and infinities, or those without the lowest ones.
std::vector<float> RandomBits(size_t count, uint32_t mask, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    uint32_t bits = random.Next32() & mask;
    if (!IsFiniteBits(bits)) bits &= ~kLeastNormalBits;
    value = FloatFromBits(bits);
  }
  return values;
}

// A noisy outer product of heavy-tailed vectors.
std::vector<float> OuterProduct(size_t num_rows, size_t width) {
  const std::vector<float> rows = NormalValues(num_rows, 1), columns = NormalValues(width, 2);
  std::vector<float> values = NormalValues(num_rows * width, 3);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::pow(rows[i / width], 3) * std::pow(columns[i % width], 3) + 1e-3f * values[i];
  return values;
}

TEST(LosslessTest, KeepsEveryBit) {
  for (const ValueCase& input : ValueCases()) {
    SCOPED_TRACE(input.name);
    EXPECT_TRUE(SameBits(RoundTrip(*Lossless(), input.values), input.values));
  }
  for (const size_t count : {1, 2, 63, 64, 8191, 8192, 20000}) {
    for (const uint32_t mask : {~0u, ~0u << 13, ~0u << 16, ~0u << 23, 0x807FFFFFu, kFloatSignBit}) {
      SCOPED_TRACE(mask);
      BitsOf(RandomBits(count, mask, count));
      BitsOf(RandomBits(count, mask, count), {7, 3});
    }
  }
}

TEST(LosslessTest, KeepsEveryBitOfEveryExponent) {
  std::vector<float> values;
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (const uint32_t mantissa : {0u, 1u, 0x400000u, 0x555555u, 0x7FFFFFu}) {
      values.push_back(FloatFromBits(exponent << 23 | mantissa));
      values.push_back(-values.back());
    }
  }
  BitsOf(values);
  for (const float value : values) BitsOf({value});
}

TEST(LosslessTest, TakesNoMoreBytesThanTheValues) {
  // Exponents that no model foretells: the values as they are.
  for (const size_t count : {1, 10, 1000, 100000})
    EXPECT_LE(MustEncode(*Lossless(), RandomBits(count, ~0u, 1)).size(), 4 * count + 1);
}

TEST(LosslessTest, DoesNotSendWhatIsZeroInAll) {
  const std::vector<float> values = NormalValues(50000, 1);
  EXPECT_LT(BitsOf(values), 26);
  std::vector<float> bfloat16 = values, half = values, small_half = values;
  for (float& value : bfloat16) value = BFloat16ToFloat(FloatToBFloat16(value));
  for (float& value : half) value = HalfToFloat(FloatToHalf(value));
  for (float& value : small_half) value = HalfToFloat(FloatToHalf(value * 1e-6f));
  EXPECT_LT(BitsOf(bfloat16), 10.6);
  EXPECT_LT(BitsOf(half), 13.6);
  // Subnormal as binary16: the smaller, the fewer bits.
  EXPECT_LT(BitsOf(small_half), 6.3);
  EXPECT_LT(BitsOf(std::vector<float>(50000)), 0.05);
  std::vector<float> zeros(50000);
  for (size_t i = 0; i < zeros.size(); i += 2) zeros[i] = -0.0f;
  EXPECT_LT(BitsOf(zeros), 1.05);
}

TEST(LosslessTest, KnowsRowsAndColumns) {
  const std::vector<float> values = OuterProduct(300, 200);
  EXPECT_LT(BitsOf(values, {200, 0}), BitsOf(values) - 2);
  // A piece of a matrix that begins within a row.
  const std::vector<float> piece(values.begin() + 1234, values.end());
  EXPECT_LT(BitsOf(piece, Grid{200, 0}.From(1234)), BitsOf(piece) - 2);
  std::vector<uint32_t> indices;
  std::vector<float> chosen;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (std::fabs(values[i]) < 2) continue;
    indices.push_back(i);
    chosen.push_back(values[i]);
  }
  const Support support(static_cast<uint32_t>(values.size()), indices);
  EXPECT_LT(BitsOf(chosen, support, {200, 0}), BitsOf(chosen, support) - 1);
}

// The examples of FORMAT.md.
TEST(LosslessTest, Examples) {
  EXPECT_EQ(MustEncode(*Lossless(), {1, -2, 3}),
            (Bytes{0x80, 0x16, 0x96, 0x00, 0xA2, 0x25, 0x0D, 0x00, 0xB4, 0x01}));
  EXPECT_EQ(MustEncode(*Lossless(), {0.1f}), (Bytes{0xFF, 0xCD, 0xCC, 0xCC, 0x3D}));
}

TEST(LosslessTest, RefusesColumnsThatTheSupportDoesNotSpan) {
  const auto codec = Lossless();
  Bytes section;
  const std::vector<float> values = OuterProduct(8, 200);
  ASSERT_TRUE(codec->Encode(values, All(1600), {0, SerialExecutor(), {200, 0}}, &section).ok());
  std::vector<float> decoded(100);
  const Status status = DecodeTo(*codec, section, &decoded);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
}

}  // namespace
}  // namespace tfcompress
