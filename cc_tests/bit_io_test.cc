#include "core/bit_io.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/hash.h"

namespace tfcompress {
namespace {

// Packs by the definition, one bit at a time.
Bytes PackBitByBit(const std::vector<uint32_t>& values, int num_bits) {
  Bytes packed(PackedBytes(values.size(), num_bits), 0);
  uint64_t bit = 0;
  for (uint32_t value : values) {
    for (int b = 0; b < num_bits; ++b, ++bit) packed[bit / 8] |= (value >> b & 1) << (bit % 8);
  }
  return packed;
}

std::vector<uint32_t> RandomValues(size_t count, int num_bits, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> values(count);
  for (uint32_t& value : values) {
    value = static_cast<uint32_t>(random.Next64() & ((uint64_t{1} << num_bits) - 1));
  }
  return values;
}

void ExpectRoundTrip(const std::vector<uint32_t>& values, int num_bits, Executor* executor) {
  Bytes packed(PackedBytes(values.size(), num_bits));
  PackBits(values, num_bits, executor, packed.data());
  ASSERT_EQ(packed, PackBitByBit(values, num_bits)) << values.size() << " x " << num_bits;
  std::vector<uint32_t> unpacked(values.size(), 0xDEADBEEF);
  UnpackBits(packed, num_bits, executor, Span<uint32_t>(unpacked));
  ASSERT_EQ(unpacked, values) << values.size() << " x " << num_bits;
  if (num_bits > kMaxByteBits) return;
  const Bytes bytes(values.begin(), values.end());
  Bytes again(packed.size()), unpacked_bytes(values.size(), 0xEE);
  PackBits(bytes, num_bits, again.data());
  EXPECT_EQ(again, packed) << values.size() << " x " << num_bits;
  UnpackBits(packed, num_bits, Span<unsigned char>(unpacked_bytes.data(), unpacked_bytes.size()));
  EXPECT_EQ(unpacked_bytes, bytes) << values.size() << " x " << num_bits;
}

TEST(BitsFor, IsTheCeilingOfTheLogarithm) {
  EXPECT_EQ(BitsFor(0), 0);
  EXPECT_EQ(BitsFor(1), 0);
  EXPECT_EQ(BitsFor(2), 1);
  EXPECT_EQ(BitsFor(3), 2);
  EXPECT_EQ(BitsFor(256), 8);
  EXPECT_EQ(BitsFor(257), 9);
  EXPECT_EQ(BitsFor(uint64_t{1} << 32), 32);
  EXPECT_EQ(BitsFor(~uint64_t{0}), 64);
}

TEST(PackBits, PutsTheFirstValueInTheLowestBits) {
  const std::vector<uint32_t> values = {0b101, 0b011, 0b110};
  Bytes packed(PackedBytes(3, 3), 0xFF);
  PackBits(values, 3, SerialExecutor(), packed.data());
  // 110 011 101, written from the right; the bits past the last value are zero.
  EXPECT_EQ(packed, (Bytes{0b10011101, 0b1}));
}

TEST(PackBits, MatchesTheDefinitionForEveryWidth) {
  for (int num_bits = 0; num_bits <= 32; ++num_bits) {
    for (size_t count : {0, 1, 2, 7, 8, 9, 31, 32, 33, 1000}) {
      ExpectRoundTrip(RandomValues(count, num_bits, count + 1), num_bits, SerialExecutor());
    }
  }
}

TEST(PackBits, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  for (int num_bits : {1, 7, 13, 32}) {
    for (int64_t count :
         {kBlockElements - 1, kBlockElements, kBlockElements + 1, 3 * kBlockElements + 5}) {
      ExpectRoundTrip(RandomValues(static_cast<size_t>(count), num_bits, 1), num_bits, &threads);
    }
  }
}

}  // namespace
}  // namespace tfcompress
