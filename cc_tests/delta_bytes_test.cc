#include "core/entropy/delta_bytes.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>

#include "contract_inputs.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxN = std::numeric_limits<uint32_t>::max();

Bytes Encode(const std::vector<uint32_t>& keys) {
  Bytes out;
  EncodeDeltaBytes(keys, SerialExecutor(), &out);
  return out;
}

Status Decode(const Bytes& bytes, uint64_t k, uint32_t n, std::vector<uint32_t>* keys) {
  ByteReader reader(bytes);
  TFC_RETURN_IF_ERROR(DecodeDeltaBytes(k, n, SerialExecutor(), &reader, keys));
  return reader.ExpectEnd("test");
}

void ExpectRoundTrip(const std::vector<uint32_t>& keys, uint32_t n) {
  const Bytes bytes = Encode(keys);
  EXPECT_LE(bytes.size(), MaxDeltaBytes(keys.size()));
  std::vector<uint32_t> decoded;
  const Status status = Decode(bytes, keys.size(), n, &decoded);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(decoded, keys);
}

// The keys of SketchML's running example (3.4): deltas 702 33 509 1272 1020 250 401 8.
TEST(DeltaBytes, SketchmlRunningExample) {
  const std::vector<uint32_t> keys = {702, 735, 1244, 2516, 3536, 3786, 4187, 4195};
  const Bytes expected = {0b01010001, 0b00010001,  // Flags: 2 1 2 2, 2 1 2 1 bytes.
                          0xBE,       0x02,       0x21, 0xFD, 0x01, 0xF8, 0x04,  // 702 33 509 1272
                          0xFC,       0x03,       0xFA, 0x91, 0x01, 0x08};       // 1020 250 401 8
  EXPECT_EQ(Encode(keys), expected);
  ExpectRoundTrip(keys, 4196);
}

TEST(DeltaBytes, RoundTripsAtTheLimitsOfEachLength) {
  ExpectRoundTrip({}, 0);
  ExpectRoundTrip({0}, 1);
  ExpectRoundTrip({kMaxN - 1}, kMaxN);
  ExpectRoundTrip({0, kMaxN - 1}, kMaxN);
  ExpectRoundTrip({0, 0xFF, 0x1FF, 0x101FE, 0x201FE, 0x12001FD, 0x22001FD}, kMaxN);
}

TEST(DeltaBytes, RoundTripsEverySmallCount) {
  for (uint32_t count = 0; count < 40; ++count) {
    for (const uint32_t step : {1u, 300u, 70000u, 20000000u}) {
      std::vector<uint32_t> keys(count);
      for (uint32_t i = 0; i < count; ++i) keys[i] = i * step + i / 3;
      ExpectRoundTrip(keys, kMaxN);
    }
  }
}

TEST(DeltaBytes, AppendsAndDelimitsItself) {
  const std::vector<uint32_t> first = RandomSubset(1000, 0.1, 2);
  const std::vector<uint32_t> second = RandomSubset(1000, 0.2, 3);
  Bytes bytes;
  EncodeDeltaBytes(first, SerialExecutor(), &bytes);
  EncodeDeltaBytes(second, SerialExecutor(), &bytes);
  ByteReader reader(bytes);
  std::vector<uint32_t> decoded;
  EXPECT_TRUE(DecodeDeltaBytes(first.size(), 1000, SerialExecutor(), &reader, &decoded).ok());
  EXPECT_EQ(decoded, first);
  EXPECT_TRUE(DecodeDeltaBytes(second.size(), 1000, SerialExecutor(), &reader, &decoded).ok());
  EXPECT_EQ(decoded, second);
  EXPECT_EQ(reader.remaining(), 0u);
}

void ExpectBadBytes(const Bytes& bytes, uint64_t k, uint32_t n) {
  std::vector<uint32_t> keys;
  EXPECT_EQ(Decode(bytes, k, n, &keys).code(), StatusCode::kDataLoss);
}

TEST(DeltaBytes, RejectsKeysThatDoNotIncrease) {
  ExpectBadBytes({0x00, 5, 0}, 2, 10);                          // The delta of 0 of a second key.
  ExpectBadBytes({0x0C, 5, 0xFF, 0xFF, 0xFF, 0xFF}, 2, kMaxN);  // 5 + (2^32 - 1) wraps to 4.
  std::vector<uint32_t> keys(static_cast<size_t>(kDeltaBytesBlock) + 1);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint32_t>(i);
  Bytes bytes = Encode(keys);
  bytes[bytes.size() - 3] = 1;  // The second block begins with key 1 instead of 65536.
  bytes[bytes.size() - 2] = 0;
  bytes[bytes.size() - 1] = 0;
  ExpectBadBytes(bytes, keys.size(), 1 << 20);
}

TEST(DeltaBytes, RejectsWhatIsOutOfRange) {
  ExpectBadBytes({0x00, 10}, 1, 10);
  ExpectBadBytes({0x00, 1, 1, 1}, 3, 2);
  ExpectBadBytes({0x04, 1}, 1, 10);                     // A flag after the last key.
  ExpectBadBytes({0x00, 1, 1}, 1, 10);                  // A byte too many.
  ExpectBadBytes({0x00, 1}, uint64_t{1} << 31, kMaxN);  // Far more keys than bytes.
}

}  // namespace
}  // namespace tfcompress
