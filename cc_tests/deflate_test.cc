// deflate: exact, bounded, and smaller where bytes repeat.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace {

constexpr size_t kBlock = size_t{1} << 18;
constexpr size_t kOneBlockHeader = 5;  // The shuffle byte and one length.

std::unique_ptr<const ValueCodec> Deflate(const std::string& shuffle = "0") {
  return MakePart<ValueCodec>("deflate", {{"shuffle", shuffle}});
}

TEST(DeflateTest, KeepsEveryBit) {
  for (const std::string shuffle : {"0", "1"}) {
    for (const ValueCase& input : ValueCases()) {
      SCOPED_TRACE(input.name);
      EXPECT_TRUE(SameBits(RoundTrip(*Deflate(shuffle), input.values), input.values));
    }
  }
}

TEST(DeflateTest, CutsIntoBlocks) {
  for (const std::string shuffle : {"0", "1"}) {
    const auto codec = Deflate(shuffle);
    std::vector<float> values(2 * kBlock + 5);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    const Bytes section = MustEncode(*codec, values);
    EXPECT_LT(section.size(), values.size() / 10);
    EXPECT_TRUE(SameBits(MustDecode(*codec, section, values.size()), values));
    ThreadExecutor threads(3);
    EXPECT_EQ(MustEncode(*codec, values, {0, &threads}), section);
    EXPECT_TRUE(IsDataLoss(*codec, section, values.size() - 1));
    EXPECT_TRUE(IsDataLoss(*codec, section, 2 * kBlock));
  }
}

TEST(DeflateTest, ShuffledExponentsCompressBetter) {
  const std::vector<float> values = NormalValues(20000, 1);
  EXPECT_LT(MustEncode(*Deflate("1"), values).size(), 0.95 * MustEncode(*Deflate(), values).size());
}

// The example of FORMAT.md. Encoders may deflate in any way.
TEST(DeflateTest, Example) {
  const Bytes section = {0x00, 0x05, 0x00, 0x00, 0x00, 0x63, 0x60, 0x40, 0x05, 0x00};
  EXPECT_TRUE(SameBits(MustDecode(*Deflate(), section, 4), std::vector<float>(4)));
}

TEST(DeflateTest, RejectsBlocksOfOtherLengths) {
  const auto codec = Deflate();
  const std::vector<float> zeros(100000);
  const Bytes section = MustEncode(*codec, zeros);
  ASSERT_LT(section.size(), 600u);  // Inflates to far more: a decoder must not trust the length.
  EXPECT_TRUE(IsDataLoss(*codec, section, 1));
  EXPECT_TRUE(IsDataLoss(*codec, section, zeros.size() - 1));
  EXPECT_TRUE(IsDataLoss(*codec, section, zeros.size() + 1));

  Bytes padded = section;  // Padded inside the block, after the end of its stream.
  padded.push_back(0);
  StoreUnaligned(&padded[1], static_cast<uint32_t>(padded.size() - kOneBlockHeader));
  EXPECT_TRUE(IsDataLoss(*codec, padded, zeros.size()));

  Bytes unknown = section;
  unknown[0] = 2;
  EXPECT_TRUE(IsDataLoss(*codec, unknown, zeros.size()));
}

TEST(DeflateTest, RejectsNonFiniteValues) {
  for (const std::string shuffle : {"0", "1"}) {
    const auto codec = Deflate(shuffle);
    for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      EXPECT_TRUE(IsDataLoss(*codec, MustEncode(*codec, {1.0f, bad, 2.0f}), 3));
    }
  }
}

}  // namespace
}  // namespace tfcompress
