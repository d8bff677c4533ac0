// The exact index codecs. For the Bloom filter see bloom_test.cc.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "contract_inputs.h"
#include "core/registry.h"
#include "make_part.h"

namespace tfcompress {
namespace {

std::vector<std::string> ExactNames() {
  std::vector<std::string> names;
  for (const auto& setting : AllSettings<IndexCodec>()) {
    if (setting.is_default && IsExact(*setting.codec)) names.push_back(setting.part);
  }
  return names;
}

class ExactIndexCodec : public testing::TestWithParam<std::string> {
 protected:
  Bytes Encode(const std::vector<uint32_t>& indices, uint32_t n) const {
    Bytes section;
    const auto decoded = codec_->Encode(indices, n, {}, &section);
    EXPECT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_LE(section.size(), codec_->MaxEncodedBytes(n, static_cast<uint32_t>(indices.size())));
    return section;
  }

  Status Decode(const Bytes& section, uint32_t n, uint32_t k,
                std::vector<uint32_t>* indices) const {
    return codec_->Decode(section, n, k, {}, indices);
  }

  void ExpectRoundTrip(const std::vector<uint32_t>& indices, uint32_t n) const {
    std::vector<uint32_t> decoded = {123};  // Decode must overwrite this.
    const Status status =
        Decode(Encode(indices, n), n, static_cast<uint32_t>(indices.size()), &decoded);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(decoded, indices);
  }

  std::unique_ptr<const IndexCodec> codec_ = MakePart<IndexCodec>(GetParam());
};

std::vector<uint32_t> Everything(uint32_t n) {
  std::vector<uint32_t> indices(n);
  std::iota(indices.begin(), indices.end(), 0u);
  return indices;
}

TEST_P(ExactIndexCodec, RoundTripsTheExtremes) {
  ExpectRoundTrip({}, 0);
  for (const uint32_t n : {1u, 7u, 8u, 9u, 63u, 64u, 65u, 1000u}) {
    ExpectRoundTrip({}, n);
    ExpectRoundTrip({0}, n);
    ExpectRoundTrip({n - 1}, n);
    ExpectRoundTrip(Everything(n), n);
  }
}

TEST_P(ExactIndexCodec, RejectsTheWrongCount) {
  const std::vector<uint32_t> indices = RandomSubset(2000, 0.2, 3);
  const Bytes section = Encode(indices, 2000);
  const auto k = static_cast<uint32_t>(indices.size());
  std::vector<uint32_t> decoded;
  for (const uint32_t wrong : {0u, 1u, k - 1, k + 1, 2000u}) {
    EXPECT_EQ(Decode(section, 2000, wrong, &decoded).code(), StatusCode::kDataLoss) << wrong;
  }
}

// A frame may claim 2^31 - 1 elements: that alone must not make the decoder allocate as many.
TEST_P(ExactIndexCodec, RejectsAHugeCountBeforeItAllocates) {
  std::vector<uint32_t> decoded;
  const auto n = static_cast<uint32_t>(kMaxElements);
  EXPECT_EQ(Decode({1, 2, 3, 4}, n, n, &decoded).code(), StatusCode::kDataLoss);
  EXPECT_LE(decoded.capacity(), 16u);
}

INSTANTIATE_TEST_SUITE_P(Registry, ExactIndexCodec, testing::ValuesIn(ExactNames()),
                         [](const auto& info) { return info.param; });

Bytes EncodeWith(const char* name, const std::vector<uint32_t>& indices, uint32_t n) {
  Bytes section;
  EXPECT_TRUE(MakePart<IndexCodec>(name)->Encode(indices, n, {}, &section).ok());
  return section;
}

TEST(CheckIndices, RefusesWhatIsNoSubset) {
  const auto check = [](const std::vector<uint32_t>& indices, uint32_t n) {
    return CheckIndices(indices, n).code();
  };
  EXPECT_EQ(check({3, 2}, 1000), StatusCode::kInvalidArgument);
  EXPECT_EQ(check({2, 2}, 1000), StatusCode::kInvalidArgument);
  EXPECT_EQ(check({1, 2, 3, 500, 998, 998}, 1000), StatusCode::kInvalidArgument);
  EXPECT_EQ(check({1, 10}, 10), StatusCode::kInvalidArgument);
  EXPECT_EQ(check({0xFFFFFFFF}, 10), StatusCode::kInvalidArgument);
  EXPECT_EQ(check({0}, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(check({}, 0), StatusCode::kOk);
  EXPECT_EQ(check({0, 9}, 10), StatusCode::kOk);

  std::vector<uint32_t> many(1000);
  std::iota(many.begin(), many.end(), 0u);
  EXPECT_EQ(check(many, 1000), StatusCode::kOk);
  many[500] = 499;
  EXPECT_NE(CheckIndices(many, 1000).message().find("index 500 is 499 after 499"),
            std::string::npos);
}

TEST(IndexSections, AreTheBytesOfTheFormat) {
  EXPECT_EQ(EncodeWith("raw", {1, 258}, 300), (Bytes{1, 0, 0, 0, 2, 1, 0, 0}));
  EXPECT_EQ(EncodeWith("bitmap", {0, 3, 8}, 10), (Bytes{0x09, 0x01}));
  EXPECT_EQ(EncodeWith("delta_binary", {2, 259, 260}, 300), (Bytes{0x04, 2, 1, 1, 1}));
}

TEST(BitmapIndex, RejectsBitsAfterTheLastElement) {
  std::vector<uint32_t> decoded;
  const Bytes section = {0x01, 0x04};  // Bit 10 of 10.
  EXPECT_EQ(MakePart<IndexCodec>("bitmap")->Decode(section, 10, 2, {}, &decoded).code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tfcompress
