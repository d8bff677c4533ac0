#include "core/sketch/minmax_sketch.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tfcompress {
namespace {

constexpr uint32_t kNumValues = 32;

uint16_t ValueOf(uint32_t key) {
  return static_cast<uint16_t>(Random(key ^ 0xABCDEF).Below(kNumValues));
}

MinMaxSketch Filled(const std::vector<uint32_t>& keys, uint32_t rows, uint32_t columns,
                    uint64_t seed = 1) {
  MinMaxSketch sketch(rows, columns, seed);
  for (uint32_t key : keys) sketch.Insert(key, ValueOf(key));
  return sketch;
}

std::vector<uint32_t> SpacedKeys(uint32_t count, uint32_t spacing) {
  std::vector<uint32_t> keys;
  for (uint32_t i = 0; i < count; ++i) keys.push_back(i * spacing);
  return keys;
}

double ExactFraction(const std::vector<uint32_t>& keys, const MinMaxSketch& sketch) {
  size_t num_exact = 0;
  for (uint32_t key : keys) num_exact += sketch.Query(key) == ValueOf(key);
  return static_cast<double>(num_exact) / static_cast<double>(keys.size());
}

// Evaluates the closed form of minmax_sketch.h.
double ExpectedExactFraction(double keys_per_column, uint32_t rows) {
  double sum = 0;
  for (uint32_t j = 0; j < kNumValues; ++j) {
    const double hit = 1 - std::exp(-keys_per_column * j / kNumValues);
    sum += 1 - std::pow(hit, rows);
  }
  return sum / kNumValues;
}

TEST(MinMaxSketchTest, NeverAnswersMoreThanWasInserted) {
  const std::vector<uint32_t> keys = SpacedKeys(20000, 7);
  const MinMaxSketch sketch = Filled(keys, 2, 4000);
  for (uint32_t key : keys) ASSERT_LE(sketch.Query(key), ValueOf(key));
}

TEST(MinMaxSketchTest, IsExactWithoutCollisions) {
  const std::vector<uint32_t> keys = {0, 5, 1000000, 0x7FFFFFFE};
  EXPECT_EQ(ExactFraction(keys, Filled(keys, 2, 1 << 20)), 1.0);
}

TEST(MinMaxSketchTest, OneCellHoldsTheLeastValue) {
  MinMaxSketch sketch(1, 1, 0);
  sketch.Insert(10, 7);
  sketch.Insert(20, 3);
  sketch.Insert(30, 9);
  EXPECT_EQ(sketch.Query(10), 3);
  EXPECT_EQ(sketch.Query(30), 3);
}

TEST(MinMaxSketchTest, KeepsTheLeastValueOfARepeatedKey) {
  MinMaxSketch sketch(2, 100, 0);
  sketch.Insert(10, 7);
  sketch.Insert(10, 4);
  sketch.Insert(10, 9);
  EXPECT_EQ(sketch.Query(10), 4);
}

TEST(MinMaxSketchTest, EmptyCellsAreMarked) {
  MinMaxSketch sketch(3, 10, 0);
  for (uint16_t cell : sketch.cells()) EXPECT_EQ(cell, MinMaxSketch::kEmpty);
}

TEST(MinMaxSketchTest, MoreRowsNeverAnswerLess) {
  const std::vector<uint32_t> keys = SpacedKeys(10000, 3);
  const MinMaxSketch two = Filled(keys, 2, 3000);
  const MinMaxSketch three = Filled(keys, 3, 3000);
  for (uint32_t key : keys) ASSERT_LE(two.Query(key), three.Query(key));
}

TEST(MinMaxSketchTest, MeetsTheClosedForm) {
  EXPECT_NEAR(ExpectedExactFraction(1 / 0.3, 2), 0.4433, 1e-4);
  // Keys in arithmetic progression are those on which weak hash functions fail.
  for (uint32_t spacing : {1u, 10u, 4096u}) {
    const std::vector<uint32_t> keys = SpacedKeys(200000, spacing);
    for (uint32_t rows : {1u, 2u, 3u}) {
      const auto columns = static_cast<uint32_t>(0.3 * static_cast<double>(keys.size()));
      EXPECT_NEAR(ExactFraction(keys, Filled(keys, rows, columns, 42 + spacing)),
                  ExpectedExactFraction(1 / 0.3, rows), 0.006)
          << rows << " rows, keys " << spacing << " apart";
    }
  }
}

}  // namespace
}  // namespace tfcompress
