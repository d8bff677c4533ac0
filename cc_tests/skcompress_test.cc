// skcompress: decodes to the same values as sketchml, from fewer bytes.
#include <cmath>
#include <memory>
#include <vector>

#include "bell_values.h"
#include "core/entropy/huffman.h"
#include "core/hash.h"
#include "core/registry.h"
#include "gtest/gtest.h"
#include "joint_round_trip.h"
#include "make_part.h"

namespace tfcompress {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

JointSection EncodeBy(const std::string& name, const Settings& settings,
                      const std::vector<float>& dense, const Support& support, uint64_t seed = 7,
                      Executor* executor = SerialExecutor()) {
  return MustEncode(*MakePart<SparseCodec>(name, settings), dense, support, {seed, executor});
}

Status DecodeTo(ByteSpan section, uint32_t n, uint32_t k, SparseTensor* out) {
  out->n = n;
  return MakePart<SparseCodec>("skcompress")->Decode(section, k, {7}, out);
}

std::vector<uint32_t> SomeIndices(uint32_t n, uint32_t max_gap) {
  Random random(n);
  std::vector<uint32_t> indices;
  for (uint32_t i = random.Below(max_gap); i < n; i += 1 + random.Below(max_gap)) {
    indices.push_back(i);
  }
  return indices;
}

TEST(SkcompressTest, Figure7) {
  // Items 0 to 3 of a sketch with frequencies 6, 3, 2, 1.
  const std::vector<uint64_t> counts = {6, 3, 2, 1};
  const HuffmanCode code = HuffmanCode::FromCounts(counts);
  const auto word = [&](uint32_t item) {  // From its first bit to its last.
    std::string text;
    for (int bit = 0; bit < code.words()[item].length; ++bit) {
      text += code.words()[item].bits >> bit & 1 ? '1' : '0';
    }
    return text;
  };
  EXPECT_EQ(word(0), "0");
  EXPECT_EQ(word(1), "10");
  EXPECT_EQ(word(2), "110");
  EXPECT_EQ(word(3), "111");
  EXPECT_EQ(2 * (6 + 3 + 2 + 1), 24);
  EXPECT_EQ(code.NumBits(counts), 21u);
}

TEST(SkcompressTest, DecodesWhatSketchmlDecodesFromFewerBytes) {
  const std::vector<float> dense = BellValues(400000);
  for (uint32_t max_gap : {20u, 200u}) {
    const std::vector<uint32_t> indices = SomeIndices(400000, max_gap);
    const Support support(400000, indices);
    for (const Settings& settings :
         {Settings{}, Settings{{"groups", "1"}}, Settings{{"buckets", "1000"}, {"rows", "3"}}}) {
      const JointSection sketchml = EncodeBy("sketchml", settings, dense, support);
      const JointSection skcompress = EncodeBy("skcompress", settings, dense, support);
      EXPECT_EQ(skcompress.decoded.indices, sketchml.decoded.indices);
      EXPECT_EQ(skcompress.decoded.values, sketchml.decoded.values);
      EXPECT_LT(skcompress.section.size(), sketchml.section.size() * 9 / 10);
      SparseTensor decoded;
      const Status status = DecodeTo(skcompress.section, 400000, skcompress.k, &decoded);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(decoded.indices, indices);
      EXPECT_EQ(decoded.values, skcompress.decoded.values);
    }
  }
}

TEST(SkcompressTest, PacksCellsWhereHuffmanDoesNotPay) {
  // As many columns as keys in one row: bucket numbers of a sketch stay uniform, and few.
  const std::vector<float> dense = BellValues(64);
  const Support support = Support::Everything(64);
  const JointSection encoded =
      EncodeBy("skcompress", {{"rows", "1"}, {"columns", "1"}}, dense, support);
  SparseTensor decoded;
  ASSERT_TRUE(DecodeTo(encoded.section, 64, 64, &decoded).ok());
  EXPECT_EQ(decoded.values, encoded.decoded.values);
}

TEST(SkcompressTest, IsTheSameForEveryExecutor) {
  const std::vector<float> dense = BellValues(210000);
  const Support support = Support::Everything(210000);
  ThreadExecutor executor(4);
  EXPECT_EQ(EncodeBy("skcompress", {}, dense, support, 7, &executor).section,
            EncodeBy("skcompress", {}, dense, support).section);
}

TEST(SkcompressTest, WorkedExample) {
  std::vector<float> dense(16);
  dense[1] = 1;
  dense[4] = -2;
  dense[9] = 0.5f;
  dense[12] = 2;
  const std::vector<uint32_t> indices = {1, 4, 9, 12};
  const JointSection encoded =
      EncodeBy("skcompress", {{"groups", "1"}}, dense, Support(16, indices), /*seed=*/0);
  EXPECT_EQ(
      encoded.section,
      (Bytes{0x02, 0,    0,    0,    0x01, 0,    0, 0,                                         //
             0x03, 0,    0,    0,    0,    0,    0, 0x3F, 0,    0, 0x80, 0x3F, 0, 0, 0, 0x40,  //
             0x0E, 0,    0,    0,    0x03, 0,    0, 0,    0x01, 0, 0,    0,                    //
             0x03, 0x10, 0x22, 0x0C, 0x00, 0x00,                                               //
             0x01, 0,    0,    0,    0,    0,    0, 0x40,                                      //
             0x0B, 0,    0,    0,    0x01, 0,    0, 0,    0x01, 0, 0,    0,                    //
             0x02, 0x20, 0x00}));
  EXPECT_EQ(encoded.decoded.values, (std::vector<float>{0.5f, -2, 0.5f, 0.5f}));
}

TEST(SkcompressTest, HostileBytesGiveErrorsOrSparseVectors) {
  constexpr uint32_t kElements = 3000;
  Random random(5);
  const std::vector<float> dense = BellValues(kElements);
  const std::vector<uint32_t> indices = SomeIndices(kElements, 4);
  const JointSection encoded = EncodeBy("skcompress", {}, dense, Support(kElements, indices));
  SparseTensor decoded;
  for (size_t length = 0; length < encoded.section.size(); ++length) {
    const Bytes prefix(encoded.section.begin(), encoded.section.begin() + length);
    ASSERT_EQ(DecodeTo(prefix, kElements, encoded.k, &decoded).code(), StatusCode::kDataLoss);
  }
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = encoded.section;
    for (int flip = 0; flip <= round % 3; ++flip) {
      damaged[random.Below(static_cast<uint32_t>(damaged.size()))] ^=
          static_cast<unsigned char>(1u << random.Below(8));
    }
    const Status status = DecodeTo(damaged, kElements, encoded.k, &decoded);
    if (!status.ok()) {
      ASSERT_EQ(status.code(), StatusCode::kDataLoss);
      continue;
    }
    ASSERT_EQ(decoded.indices.size(), encoded.k);
    ASSERT_TRUE(CheckIndices(decoded.indices, kElements).ok());
    for (float value : decoded.values) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace tfcompress
