#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "contract_inputs.h"
#include "core/collect.h"
#include "core/float_filter.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/registry.h"
#include "make_part.h"

namespace tfcompress {
namespace {

std::vector<uint32_t> Select(const Sparsifier& sparsifier, const std::vector<float>& dense,
                             Executor* executor = SerialExecutor()) {
  std::vector<uint32_t> indices = {123};  // Select must overwrite this.
  const Status status = sparsifier.Select(dense, {0, executor}, &indices);
  EXPECT_TRUE(status.ok()) << status.message();
  return indices;
}

// The k largest magnitudes, ties by lower index.
std::vector<uint32_t> TopKOracle(const std::vector<float>& dense, size_t k) {
  std::vector<uint32_t> indices(dense.size());
  std::iota(indices.begin(), indices.end(), 0u);
  const auto middle = indices.begin() + static_cast<std::ptrdiff_t>(k);
  auto precedes = [&](uint32_t a, uint32_t b) {
    const float x = std::fabs(dense[a]);
    const float y = std::fabs(dense[b]);
    return x > y || (x == y && a < b);
  };
  if (middle != indices.end()) std::nth_element(indices.begin(), middle, indices.end(), precedes);
  indices.resize(k);
  std::sort(indices.begin(), indices.end());
  return indices;
}

void ExpectTopK(const std::vector<float>& dense, size_t k) {
  const double ratio = static_cast<double>(k) / static_cast<double>(dense.size());
  const auto topk = MakePart<Sparsifier>("topk", {{"ratio", std::to_string(ratio)}});
  ASSERT_EQ(std::llround(std::stod(std::to_string(ratio)) * static_cast<double>(dense.size())),
            static_cast<long long>(k));
  const std::vector<uint32_t> expected = TopKOracle(dense, k);
  EXPECT_EQ(Select(*topk, dense), expected);
  ThreadExecutor threads(4);
  EXPECT_EQ(Select(*topk, dense, &threads), expected);
}

// Large enough for the sampled path, and not a whole number of blocks, chunks or vectors.
constexpr size_t kLarge = 200003;

TEST(TopK, AgreesWithTheOracle) {
  for (const size_t n : {2u, 10u, 1000u, 32768u, 32769u}) {
    const std::vector<float> dense = NormalValues(n, n);
    ExpectTopK(dense, 1);
    ExpectTopK(dense, n / 2);
    ExpectTopK(dense, n);
  }
  const std::vector<float> dense = NormalValues(kLarge, 1);
  for (const size_t k : {size_t{1}, size_t{200}, size_t{2000}, kLarge / 3, kLarge - 1})
    ExpectTopK(dense, k);
}

TEST(TopK, HasAtLeastOneElement) {
  const auto topk = MakePart<Sparsifier>("topk", {{"ratio", "0.001"}});
  EXPECT_EQ(Select(*topk, {1, -3, 2}), (std::vector<uint32_t>{1}));
  EXPECT_EQ(Select(*topk, {0}), (std::vector<uint32_t>{0}));
  EXPECT_TRUE(Select(*topk, {}).empty());
}

TEST(TopK, BreaksTiesByLowerIndex) {
  ExpectTopK(std::vector<float>(kLarge, 0.0f), 1000);
  ExpectTopK(std::vector<float>(kLarge, -2.5f), 1000);
  std::vector<float> few_values(kLarge);  // Ties at every cut, of both signs.
  Random random(2);
  for (float& x : few_values) x = static_cast<float>(static_cast<int>(random.Below(7)) - 3);
  for (const size_t k : {1u, 500u, 60000u, 150000u}) ExpectTopK(few_values, k);
}

// If fewer than k elements are nonzero, the first zeros complete the k.
TEST(TopK, FillsUpWithZeros) {
  std::vector<float> dense(kLarge);
  Random random(3);
  for (int i = 0; i < 300; ++i) dense[random.Below(kLarge)] = random.NextFloat() - 0.5f;
  ExpectTopK(dense, 2000);
  for (float& x : dense) x = x == 0 ? -0.0f : x;
  ExpectTopK(dense, 2000);
}

TEST(TopK, OrdersDenormals) {
  std::vector<float> dense(kLarge);
  Random random(4);
  for (float& x : dense)
    x = static_cast<float>(random.Below(100000)) * std::numeric_limits<float>::denorm_min();
  for (size_t i = 0; i < dense.size(); i += 3) dense[i] = -dense[i];
  ExpectTopK(dense, 2000);
}

// Large elements are where the sample misses them, or where it sees too many.
TEST(TopK, SurvivesAMisleadingSample) {
  std::vector<float> dense = NormalValues(kLarge, 5);
  for (size_t i = 0; i < 3000; ++i) dense[70000 + i] = 100 + static_cast<float>(i % 50);
  for (const size_t k : {100u, 2999u, 3000u, 3001u, 10000u}) ExpectTopK(dense, k);
  std::vector<float> ascending(kLarge);
  std::iota(ascending.begin(), ascending.end(), 0.0f);
  ExpectTopK(ascending, 2000);
  std::reverse(ascending.begin(), ascending.end());
  ExpectTopK(ascending, 2000);
}

// The bound of the sample is then among the small ones, far below the cut.
TEST(TopK, CutsFarAboveItsBound) {
  std::vector<float> dense = NormalValues(100000, 5);
  for (size_t i = 0; i < dense.size(); i += 100) dense[i] = 1000 + 3 * dense[i];
  ExpectTopK(dense, 1000);
  ExpectTopK(dense, 900);
  ExpectTopK(dense, 1100);
}

TEST(Nonzero, DropsBothZeros) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  const auto nonzero = MakePart<Sparsifier>("nonzero");
  EXPECT_EQ(Select(*nonzero, {0.0f, -0.0f, denormal, -denormal, 1.0f, -1.0f}),
            (std::vector<uint32_t>{2, 3, 4, 5}));
}

TEST(Threshold, IncludesItsBound) {
  const auto threshold = MakePart<Sparsifier>("threshold", {{"tau", "0.5"}});
  const float below = std::nextafter(0.5f, 0.0f);
  EXPECT_EQ(Select(*threshold, {0.5f, -0.5f, below, -below, 3.0f, 0.0f}),
            (std::vector<uint32_t>{0, 1, 4}));
}

TEST(Dense, IsEverything) {
  const auto dense = MakePart<Sparsifier>("dense");
  EXPECT_EQ(dense->implied(), Implied::kEverything);
  EXPECT_EQ(Select(*dense, {0, 1, 0}), (std::vector<uint32_t>{0, 1, 2}));
}

TEST(MakeElements, ListsWhatItMakes) {
  const std::vector<float> gradient = NormalValues(1000, 8);
  for (const int64_t size : {0, 1, 63, 64, 65, 1000}) {
    std::vector<float> made(size), values(size);
    std::vector<uint32_t> found(size), expected;
    FloatList list{FloatFilter::AtLeast(FloatBits(1.5f)), found.data(), values.data()};
    const auto twice = [from = gradient.data(), to = made.data()](int64_t i) {
      return to[i] = 2 * from[i];
    };
    EXPECT_TRUE(MakeElements(twice, made.data(), size, 7, &list));
    for (int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(made[i], 2 * gradient[i]);
      if (std::fabs(made[i]) >= 1.5f) expected.push_back(static_cast<uint32_t>(7 + i));
    }
    found.resize(list.count);
    EXPECT_EQ(found, expected);
    for (int64_t i = 0; i < list.count; ++i) EXPECT_EQ(values[i], made[found[i] - 7]);
  }
}

TEST(MakeElements, FindsEveryElementThatIsNotFinite) {
  std::vector<float> elements = NormalValues(150, 9), values(150);
  std::vector<uint32_t> found(150);
  const auto is_finite = [&](FloatList* list) {
    const auto keep = [from = elements.data()](int64_t i) { return from[i]; };
    return MakeElements(keep, elements.data(), 150, 0, list);
  };
  for (float& element : elements) {
    const float before = element;
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")}) {
      element = bad;
      FloatList list{FloatFilter::AtLeast(FloatBits(100.0f)), found.data(), values.data()};
      EXPECT_FALSE(is_finite(nullptr));
      EXPECT_FALSE(is_finite(&list));
    }
    element = before;
  }
  EXPECT_TRUE(is_finite(nullptr));
}

TEST(CollectAtLeast, AgreesWithTheDefinition) {
  const std::vector<float> dense = NormalValues(kLarge, 6);
  ThreadExecutor threads(4);
  for (const float bound : {1e-30f, 0.1f, 2.0f, 1e30f}) {
    std::vector<uint32_t> expected;
    std::vector<float> expected_values;
    for (uint32_t i = 0; i < kLarge; ++i) {
      if (std::fabs(dense[i]) < bound) continue;
      expected.push_back(i);
      expected_values.push_back(dense[i]);
    }
    const Candidates found = CollectAtLeast(dense, MagnitudeBits(bound), &threads);
    EXPECT_EQ(found.indices, expected);
    EXPECT_EQ(found.values, expected_values);
  }
}

// Every pattern of eight neighbours at or above the bound, at every alignment of the block's end.
TEST(CollectAtLeast, ListsEveryPatternOfNeighbours) {
  for (size_t n = 1; n <= 24; ++n) {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      std::vector<float> dense(n);
      std::vector<uint32_t> expected;
      for (uint32_t i = 0; i < n; ++i) {
        const bool passes = mask >> (i % 8) & 1;
        dense[i] = passes ? -1.0f : 0.5f;
        if (passes) expected.push_back(i);
      }
      ASSERT_EQ(CollectAtLeast(dense, MagnitudeBits(1.0f), SerialExecutor()).indices, expected);
    }
  }
}

}  // namespace
}  // namespace tfcompress
