// The index codec `rle`.
#include <gtest/gtest.h>

#include <numeric>

#include "bit_string.h"
#include "core/byte_io.h"
#include "core/hash.h"
#include "make_part.h"

namespace tfcompress {
namespace {

Bytes Encode(const std::vector<uint32_t>& indices, uint32_t n) {
  Bytes section;
  EXPECT_TRUE(MakePart<IndexCodec>("rle")->Encode(indices, n, {}, &section).ok());
  return section;
}

Status Decode(const Bytes& section, uint32_t n, uint32_t k, std::vector<uint32_t>* indices) {
  return MakePart<IndexCodec>("rle")->Decode(section, n, k, {}, indices);
}

// Reads all runs of the bitmap, zeros first, as FORMAT.md describes; at most one block.
std::vector<uint64_t> ReadRuns(const Bytes& section, uint32_t n) {
  const auto num_runs = LoadUnaligned<uint32_t>(section.data());
  const int parameters[] = {section[4], section[5]};
  BitString bits(ByteSpan(section).subspan(6, section.size() - 6));
  std::vector<uint64_t> runs;
  for (size_t i = 0; i < 2 * size_t{num_runs}; ++i) {
    const uint64_t high = bits.Unary() << parameters[i % 2];
    runs.push_back(high + bits.Number(parameters[i % 2]) + (i > 0));
  }
  EXPECT_EQ(6 + bits.num_bytes_taken(), section.size());
  const uint64_t sum = std::accumulate(runs.begin(), runs.end(), uint64_t{0});
  if (sum < n) runs.push_back(n - sum);
  return runs;
}

std::vector<uint64_t> RunsOf(const std::vector<uint32_t>& indices, uint32_t n) {
  std::vector<bool> bitmap(n);
  for (const uint32_t index : indices) bitmap[index] = true;
  std::vector<uint64_t> runs = {0};
  bool bit = false;
  for (uint32_t i = 0; i < n; ++i) {
    if (bitmap[i] != bit) runs.push_back(0);
    bit = bitmap[i];
    ++runs.back();
  }
  return runs;
}

// DeepReduce, section 2: "aaaabaa" is (4, a), (1, b), (2, a).
TEST(Rle, DeepReduceSection2) {
  const Bytes section = Encode({4}, 7);
  EXPECT_EQ(ReadRuns(section, 7), (std::vector<uint64_t>{4, 1, 2}));
  EXPECT_EQ(section, (Bytes{1, 0, 0, 0, 1, 0, 0x14}));
}

TEST(Rle, IsTheBytesOfTheFormat) {
  EXPECT_EQ(Encode({2, 3, 4, 9}, 12), (Bytes{2, 0, 0, 0, 1, 0, 0xA2, 0x03}));
}

TEST(Rle, RunsAreThoseOfTheBitmap) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const uint32_t n = 1 + random.Below(3000);
    const uint32_t keep_going = random.Below(100);  // Percent: short and long runs.
    std::vector<uint32_t> indices;
    bool bit = false;
    for (uint32_t index = 0; index < n; ++index) {
      if (random.Below(100) >= keep_going) bit = !bit;
      if (bit) indices.push_back(index);
    }
    if (indices.empty()) continue;
    const Bytes section = Encode(indices, n);
    EXPECT_EQ(ReadRuns(section, n), RunsOf(indices, n));
    EXPECT_LE(section.size(), 6 + (uint64_t{n} + 1 + 7) / 8);  // Never above the bitmap.
    std::vector<uint32_t> decoded;
    ASSERT_TRUE(Decode(section, n, static_cast<uint32_t>(indices.size()), &decoded).ok());
    EXPECT_EQ(decoded, indices);
  }
}

TEST(Rle, LongRunsCostNothing) {
  std::vector<uint32_t> indices(1000000);
  std::iota(indices.begin(), indices.end(), 1234567u);
  const Bytes section = Encode(indices, 1u << 30);
  EXPECT_LE(section.size(), 6u + 6u);
  std::vector<uint32_t> decoded;
  ASSERT_TRUE(Decode(section, 1u << 30, 1000000, &decoded).ok());
  EXPECT_EQ(decoded, indices);
}

// One very long run among short ones: its unary part is longer than the reader's window.
TEST(Rle, LongUnaryPartsAmongShortRuns) {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 100; ++i) indices.push_back(2 * i);
  indices.push_back(40000);
  indices.push_back(41000);
  std::vector<uint32_t> decoded;
  ASSERT_TRUE(Decode(Encode(indices, 50000), 50000, 102, &decoded).ok());
  EXPECT_EQ(decoded, indices);
}

TEST(Rle, SeveralBlocksOfRuns) {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 200001; ++i) indices.push_back(3 * i + i % 2);
  std::vector<uint32_t> decoded;
  ASSERT_TRUE(Decode(Encode(indices, 700000), 700000, 200001, &decoded).ok());
  EXPECT_EQ(decoded, indices);
}

TEST(Rle, RefusesRunsThatDoNotAddUp) {
  const Bytes section = Encode({4}, 7);
  std::vector<uint32_t> indices;
  EXPECT_EQ(Decode(section, 4, 1, &indices).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Decode(section, 5, 1, &indices).ok());
  EXPECT_EQ(Decode(section, 7, 2, &indices).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Decode({1, 0, 0, 0, 32, 0, 0x14}, 7, 1, &indices).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Decode({0, 0, 0, 0, 0, 0}, 7, 1, &indices).code(), StatusCode::kDataLoss);
  EXPECT_EQ(Decode({2, 0, 0, 0, 1, 0, 0x14}, 7, 2, &indices).code(), StatusCode::kDataLoss);
  // Zeros without end.
  EXPECT_EQ(Decode({1, 0, 0, 0, 31, 31, 0, 0, 0, 0, 0, 0, 0, 0}, kMaxElements, 1, &indices).code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tfcompress
