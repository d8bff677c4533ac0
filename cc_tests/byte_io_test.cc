#include "core/byte_io.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tfcompress {
namespace {

TEST(ByteWriter, AppendsLittleEndianAfterWhatIsThere) {
  Bytes bytes = {0xAA};
  ByteWriter writer(&bytes);
  writer.Write(uint32_t{0x01020304});
  writer.Write(uint8_t{5});
  const std::vector<uint16_t> array = {0x0706, 0x0908};
  writer.WriteArray(Span<const uint16_t>(array));
  writer.WriteArray(Span<const uint16_t>());
  EXPECT_EQ(bytes, (Bytes{0xAA, 4, 3, 2, 1, 5, 6, 7, 8, 9}));
  EXPECT_EQ(writer.size(), 10u);
}

TEST(ByteWriter, ExtendByZerosClearsWhatItAppends) {
  Bytes bytes = {1, 2, 3};
  bytes.resize(1);
  ByteWriter writer(&bytes);
  writer.ExtendByZeros(2)[1] = 7;
  EXPECT_EQ(bytes, (Bytes{1, 0, 7}));
}

TEST(ByteWriter, ExtendLeavesTheBytesToTheCaller) {
  Bytes bytes = {1, 2, 3};
  bytes.resize(1);
  ByteWriter writer(&bytes);
  unsigned char* const appended = writer.Extend(2);
  appended[0] = 8;
  appended[1] = 9;
  EXPECT_EQ(bytes, (Bytes{1, 8, 9}));
}

TEST(ByteReader, ReadsBackWhatWasWritten) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(uint8_t{9});  // The rest lies unaligned.
  writer.Write(uint64_t{0x0123456789ABCDEF});
  writer.Write(1.5f);
  const std::vector<uint32_t> array = {1, 0xFFFFFFFF};
  writer.WriteArray(Span<const uint32_t>(array));

  ByteReader reader(bytes);
  uint8_t small = 0;
  uint64_t wide = 0;
  float real = 0;
  std::vector<uint32_t> read_array = {42};
  ASSERT_TRUE(reader.Read("small", &small).ok());
  ASSERT_TRUE(reader.Read("wide", &wide).ok());
  ASSERT_TRUE(reader.Read("real", &real).ok());
  EXPECT_EQ(reader.remaining(), 8u);
  ASSERT_TRUE(reader.ReadArray("array", 2, &read_array).ok());
  EXPECT_EQ(small, 9);
  EXPECT_EQ(wide, 0x0123456789ABCDEFu);
  EXPECT_EQ(real, 1.5f);
  EXPECT_EQ(read_array, array);
  EXPECT_TRUE(reader.ExpectEnd("section").ok());
}

TEST(ByteReader, NamesTheFieldThatIsCutOff) {
  const Bytes bytes = {1, 2, 3};
  ByteReader reader(bytes);
  uint32_t value = 77;
  const Status status = reader.Read("checksum", &value);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "truncated at checksum: needs 4 bytes, 3 left");
  EXPECT_EQ(value, 77u);
  EXPECT_EQ(reader.remaining(), 3u);  // A failed read consumes nothing.
}

TEST(ByteReader, RefusesLengthsThatWouldWrapAround) {
  const Bytes bytes(16, 0);
  ByteReader reader(bytes);
  ByteSpan span;
  std::vector<uint64_t> array;
  EXPECT_EQ(reader.ReadSpan("span", ~uint64_t{0}, &span).code(), StatusCode::kDataLoss);
  // 2^61 elements of 8 bytes are 2^64 bytes: 0 when the product wraps.
  EXPECT_EQ(reader.ReadArray("array", uint64_t{1} << 61, &array).code(), StatusCode::kDataLoss);
  EXPECT_EQ(reader.ReadArray("array", 3, &array).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(reader.ReadArray("array", 2, &array).ok());
}

TEST(ByteReader, SpansBorrowFromTheInput) {
  const Bytes bytes = {1, 2, 3, 4};
  ByteReader reader(bytes);
  ByteSpan span;
  ASSERT_TRUE(reader.ReadSpan("a", 1, &span).ok());
  ASSERT_TRUE(reader.ReadSpan("b", 2, &span).ok());
  EXPECT_EQ(span.data(), bytes.data() + 1);
  EXPECT_EQ(span.size(), 2u);
  ASSERT_TRUE(reader.ReadSpan("empty", 0, &span).ok());
  EXPECT_TRUE(span.empty());
}

TEST(ByteReader, ExpectEndCountsWhatIsLeft) {
  const Bytes bytes = {1, 2};
  const Status status = ByteReader(bytes).ExpectEnd("index section");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "index section: 2 bytes too many");
}

}  // namespace
}  // namespace tfcompress
