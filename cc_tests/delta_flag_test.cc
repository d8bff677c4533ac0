// The index codec `delta_flag`.
#include <gtest/gtest.h>

#include "bit_string.h"
#include "core/hash.h"
#include "make_part.h"

namespace tfcompress {
namespace {

std::unique_ptr<const IndexCodec> Codec(int flag_bits) {
  return MakePart<IndexCodec>("delta_flag", {{"flag_bits", std::to_string(flag_bits)}});
}

Bytes Encode(const std::vector<uint32_t>& indices, uint32_t n, int flag_bits = 2) {
  Bytes section;
  EXPECT_TRUE(Codec(flag_bits)->Encode(indices, n, {}, &section).ok());
  return section;
}

// Figure 3: the largest delta is 232, M = 8, and the delta 3 of key 578 is coded 0011.
TEST(DeltaFlag, Figure3) {
  const Bytes section = Encode({200, 432, 575, 578}, 600);
  EXPECT_EQ(section, (Bytes{0x02, 0x08, 0x23, 0x8F, 0xFE, 0x23, 0x03}));
  BitString bits(ByteSpan(section).subspan(2, section.size() - 2));
  bits.Text(3 * (2 + 8));
  EXPECT_EQ(bits.Text(4), "0011");
}

// Figure 3: the flags stand for [0, 4), [4, 16), [16, 64) and [64, 256).
TEST(DeltaFlag, Figure3Ranges) {
  const std::vector<uint32_t> deltas = {3, 4, 15, 16, 63, 64, 255};
  const std::vector<std::string> flags = {"00", "01", "01", "10", "10", "11", "11"};
  std::vector<uint32_t> keys;
  for (const uint32_t delta : deltas) keys.push_back((keys.empty() ? 0 : keys.back()) + delta);
  const Bytes section = Encode(keys, 1000);
  EXPECT_EQ(section[1], 8);
  BitString bits(ByteSpan(section).subspan(2, section.size() - 2));
  for (size_t i = 0; i < deltas.size(); ++i) {
    EXPECT_EQ(bits.Text(2), flags[i]);
    EXPECT_EQ(bits.Number(flags[i] == "00"   ? 2
                          : flags[i] == "01" ? 4
                          : flags[i] == "10" ? 6
                                             : 8),
              deltas[i]);
  }
}

// Algorithm 2, read bit by bit, for every l.
TEST(DeltaFlag, DecodesAsTheFormatSays) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const int flag_bits = 1 + i % 5;
    const uint32_t step = uint32_t{1} << random.Below(20);
    std::vector<uint32_t> keys = {random.Below(step)};
    while (keys.size() < 50) keys.push_back(keys.back() + 1 + random.Below(step));
    const uint32_t n = keys.back() + 1;
    const Bytes section = Encode(keys, n, flag_bits);
    ASSERT_EQ(section[0], flag_bits);
    BitString bits(ByteSpan(section).subspan(2, section.size() - 2));
    uint64_t key = 0;
    for (const uint32_t expected : keys) {
      int flag = 0;
      for (int j = flag_bits; j-- > 0;) flag += bits.Next() << j;
      const int num_flags = 1 << flag_bits;
      key += bits.Number(((flag + 1) * section[1] + num_flags - 1) / num_flags);
      EXPECT_EQ(key, expected);
    }
    EXPECT_EQ(2 + bits.num_bytes_taken(), section.size());
    std::vector<uint32_t> decoded;
    ASSERT_TRUE(Codec(2)->Decode(section, n, 50, {}, &decoded).ok());
    EXPECT_EQ(decoded, keys);
  }
}

// The paper's M = ceil(log2(maxDelta)) would be one bit short.
TEST(DeltaFlag, PowersOfTwoFit) {
  for (int bits = 0; bits < 31; ++bits) {
    const std::vector<uint32_t> keys = {0, uint32_t{1} << bits};
    const Bytes section = Encode(keys, keys[1] + 1);
    EXPECT_EQ(section[1], bits + 1);
    std::vector<uint32_t> decoded;
    ASSERT_TRUE(Codec(2)->Decode(section, keys[1] + 1, 2, {}, &decoded).ok());
    EXPECT_EQ(decoded, keys);
  }
}

TEST(DeltaFlag, RefusesForeignParameters) {
  const std::vector<Bytes> sections = {{0, 8, 0x23, 0x8F},  {6, 8, 0x23, 0x8F}, {2, 0, 0x23, 0x8F},
                                       {2, 33, 0x23, 0x8F}, {2, 8, 0},          {2}};
  std::vector<uint32_t> indices;
  for (const Bytes& section : sections) {
    EXPECT_EQ(Codec(2)->Decode(section, 600, 2, {}, &indices).code(), StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace tfcompress
