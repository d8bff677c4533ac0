// skcompress: decodes to the same values as sketchml, from fewer bytes.
#include <memory>
#include <vector>

#include "contract_inputs.h"
#include "core/hash.h"
#include "core/registry.h"
#include "gtest/gtest.h"
#include "joint_round_trip.h"
#include "make_part.h"

namespace tfcompress {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

JointSection EncodeBy(const std::string& name, const Settings& settings,
                      const std::vector<float>& dense, const Support& support, uint64_t seed = 7) {
  return MustEncode(*MakePart<SparseCodec>(name, settings), dense, support, {seed});
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

TEST(SkcompressTest, DecodesWhatSketchmlDecodesFromFewerBytes) {
  const std::vector<float> dense = NormalValues(400000, 400000);
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
  const std::vector<float> dense = NormalValues(64, 64);
  const Support support = Support::Everything(64);
  const JointSection encoded =
      EncodeBy("skcompress", {{"rows", "1"}, {"columns", "1"}}, dense, support);
  SparseTensor decoded;
  ASSERT_TRUE(DecodeTo(encoded.section, 64, 64, &decoded).ok());
  EXPECT_EQ(decoded.values, encoded.decoded.values);
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

}  // namespace
}  // namespace tfcompress
