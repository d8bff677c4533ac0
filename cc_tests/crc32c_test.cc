#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/hash.h"

namespace tfcompress {
namespace {

// Computes the checksum by its definition: division by the reversed polynomial, bit by bit.
uint32_t Crc32cBitByBit(ByteSpan bytes) {
  uint32_t state = 0xFFFFFFFF;
  for (unsigned char byte : bytes) {
    state ^= byte;
    for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ (state & 1 ? 0x82F63B78 : 0);
  }
  return ~state;
}

Bytes RandomBytes(size_t num_bytes) {
  Random random(num_bytes);
  Bytes bytes(num_bytes);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.Next32());
  return bytes;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
  Bytes ascending(32), descending(32);
  for (int i = 0; i < 32; ++i) {
    ascending[i] = static_cast<unsigned char>(i);
    descending[i] = static_cast<unsigned char>(31 - i);
  }
  EXPECT_EQ(Crc32c(Bytes(32, 0x00)), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(Bytes(32, 0xFF)), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(descending), 0x113FDB5Cu);
  const std::string check = "123456789";
  EXPECT_EQ(Crc32c(Bytes(check.begin(), check.end())), 0xE3069283u);
  EXPECT_EQ(Crc32c(ByteSpan()), 0u);
}

TEST(Crc32c, MatchesTheDefinitionAtEveryLengthAndAlignment) {
  const Bytes bytes = RandomBytes(300);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      const ByteSpan part(bytes.data() + begin, size);
      ASSERT_EQ(Crc32c(part), Crc32cBitByBit(part)) << begin << " + " << size;
    }
  }
}

TEST(Crc32c, MatchesTheDefinitionOverManyChunks) {
  const Bytes bytes = RandomBytes(20'000);
  for (const size_t size : {3071, 3072, 3073, 6144, 9999, 20'000}) {
    const ByteSpan part(bytes.data(), size);
    ASSERT_EQ(Crc32c(part), Crc32cBitByBit(part)) << size;
  }
}

TEST(Crc32c, ContinuesOverASecondPart) {
  const Bytes bytes = RandomBytes(101);
  const ByteSpan all(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = Crc32c(all.subspan(0, cut));
    ASSERT_EQ(Crc32c(all.subspan(cut, bytes.size() - cut), first), Crc32c(all)) << cut;
  }
}

}  // namespace
}  // namespace tfcompress
