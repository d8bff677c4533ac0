// Codes of several parts: bytes do not depend on the executor, and damage is refused.
#include "core/entropy/parts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/hash.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

constexpr auto kPart = static_cast<size_t>(kPartItems);
constexpr Grid kMatrix{250, 0};

// A noisy outer product.
std::vector<float> Matrix(size_t num_rows) {
  const std::vector<float> rows = NormalValues(num_rows, 1),
                           columns = NormalValues(kMatrix.width, 2);
  std::vector<float> values = NormalValues(num_rows * kMatrix.width, 3);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = rows[i / kMatrix.width] * columns[i % kMatrix.width] + 1e-3f * values[i];
  return values;
}

// Two parts and a few indices more, 1 to 4 apart, the first of which is 0.
struct ManyIndices {
  ManyIndices() {
    Random random(5);
    for (uint32_t index = 0; indices.size() < 2 * kPart + 300; index += 1 + random.Next32() % 4)
      indices.push_back(index);
    n = indices.back() + 1;
  }
  uint32_t num_indices() const { return static_cast<uint32_t>(indices.size()); }

  std::vector<uint32_t> indices;
  uint32_t n;
};

Bytes EncodeIndices(const ManyIndices& input, const Grid& grid, Executor* executor) {
  Bytes section;
  const auto codec = MakePart<IndexCodec>("rowcol");
  const auto result = codec->Encode(input.indices, input.n, {0, executor, grid}, &section);
  EXPECT_TRUE(result.ok()) << result.status().message();
  EXPECT_LE(section.size(), codec->MaxEncodedBytes(input.n, input.num_indices()));
  return section;
}

Status DecodeIndices(const ManyIndices& input, const Bytes& section, Executor* executor,
                     std::vector<uint32_t>* indices) {
  return MakePart<IndexCodec>("rowcol")->Decode(section, input.n, input.num_indices(),
                                                {0, executor}, indices);
}

class ValuePartsTest : public testing::TestWithParam<const char*> {};

TEST_P(ValuePartsTest, AreCodedApart) {
  const std::vector<float> values = Matrix(2100);
  ASSERT_GT(values.size(), 2 * kPart);
  std::vector<uint32_t> indices(values.size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<uint32_t>(3 * i + 1);
  const Support sparse(static_cast<uint32_t>(3 * values.size()), indices);
  ThreadExecutor threads(3);
  const auto codec = MakePart<ValueCodec>(GetParam());
  for (const Support& support : {All(values.size()), sparse}) {
    Bytes serial, parallel;
    std::vector<float> rounded(values.size()), decoded(values.size());
    ASSERT_TRUE(codec->Encode(values, support, {0, SerialExecutor(), kMatrix}, &serial).ok());
    ASSERT_TRUE(codec
                    ->EncodeAndDecode(values, support, {0, &threads, kMatrix}, &parallel,
                                      Span<float>(rounded))
                    .ok());
    EXPECT_EQ(parallel, serial);
    EXPECT_LE(serial.size(), codec->MaxEncodedBytes(static_cast<uint32_t>(values.size())));
    const Status status = codec->Decode(serial, support, {0, &threads}, Span<float>(decoded));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(decoded, rounded);
  }
}

TEST_P(ValuePartsTest, OfAnotherNumberAreRefused) {
  const std::vector<float> values = Matrix(2100);
  const auto codec = MakePart<ValueCodec>(GetParam());
  const Bytes section = MustEncode(*codec, values);
  for (const size_t k : {kPart, 2 * kPart, 2 * kPart + 1, 4 * kPart})
    EXPECT_TRUE(IsDataLoss(*codec, section, k)) << k;
}

INSTANTIATE_TEST_SUITE_P(Codecs, ValuePartsTest, testing::Values("ecsq", "lossless"));

TEST(IndexPartsTest, AreCodedApart) {
  const ManyIndices input;
  ThreadExecutor threads(3);
  for (const Grid& grid : {Grid(), kMatrix, Grid{250, 7}}) {
    const Bytes section = EncodeIndices(input, grid, SerialExecutor());
    EXPECT_EQ(EncodeIndices(input, grid, &threads), section);
    std::vector<uint32_t> decoded;
    const Status status = DecodeIndices(input, section, &threads, &decoded);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(decoded, input.indices);
  }
}

TEST(IndexPartsTest, OfOtherBoundsAreRefused) {
  const ManyIndices input;
  const Bytes section = EncodeIndices(input, {}, SerialExecutor());
  const auto refuses = [&](uint32_t first, uint32_t second) {
    Bytes damaged = section;
    StoreUnaligned(damaged.data(), first);
    StoreUnaligned(damaged.data() + sizeof(first), second);
    std::vector<uint32_t> indices;
    const Status status = DecodeIndices(input, damaged, SerialExecutor(), &indices);
    return status.code() == StatusCode::kDataLoss;
  };
  const uint32_t first = input.indices[kPart], second = input.indices[2 * kPart];
  EXPECT_FALSE(refuses(first, second));
  EXPECT_TRUE(refuses(second, first));
  EXPECT_TRUE(refuses(0, second));
  EXPECT_TRUE(refuses(first, first));
  EXPECT_TRUE(refuses(first, input.n));
  EXPECT_TRUE(refuses(first, ~0u));
}

}  // namespace
}  // namespace tfcompress
