// Recovery from a Count Sketch: the largest estimates, and HEAVYMIX.
#include "core/linear/recovery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "contract_inputs.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

using Floats = std::vector<float>;
using Indices = std::vector<uint32_t>;

struct Recovered {
  Indices indices;
  Floats values;
};

Floats TableOf(const CountSketch& sketch, const Floats& x) {
  Floats table(static_cast<size_t>(sketch.num_cells()));
  sketch.Insert(x, SerialExecutor(), Span<float>(table));
  return table;
}

Floats EstimatesOf(const CountSketch& sketch, const Floats& table, size_t n) {
  Floats estimates(n);
  sketch.Estimate(table, SerialExecutor(), Span<float>(estimates));
  return estimates;
}

Recovered Top(const CountSketch& sketch, const Floats& table, int64_t n, int64_t count,
              Executor* executor = SerialExecutor()) {
  Recovered found;
  TopCandidates(sketch, table, n, count, executor, &found.indices, &found.values);
  return found;
}

Recovered Mix(const CountSketch& sketch, const Floats& table, int64_t n, int64_t k,
              uint64_t seed = 1, Executor* executor = SerialExecutor()) {
  Recovered found;
  HeavyMix(sketch, table, n, k, {seed, executor}, &found.indices, &found.values);
  return found;
}

// The count largest magnitudes, ties by lower index, ascending.
Indices LargestOf(const Floats& values, size_t count) {
  Indices order(values.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::fabs(values[a]) > std::fabs(values[b]);
  });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

void ExpectSameRecovered(const Recovered& actual, const Recovered& expected) {
  EXPECT_EQ(actual.indices, expected.indices);
  EXPECT_TRUE(SameBits(actual.values, expected.values));
}

// Small noise with large elements of both signs at `heavy`.
Floats WithHeavy(size_t n, const Indices& heavy, float magnitude) {
  Floats x = NormalValues(n, 9);
  for (uint32_t i : heavy) x[i] = i % 2 == 0 ? magnitude : -magnitude;
  return x;
}

TEST(TopCandidates, AreTheLargestEstimatesWithTheirValues) {
  for (const size_t n : {size_t{1}, size_t{300}, size_t{100003}}) {
    const CountSketch sketch(5, 1000, 2);
    const Floats table = TableOf(sketch, Gradient(n, 1));
    const Floats estimates = EstimatesOf(sketch, table, n);
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{200000}}) {
      const size_t expected_count = std::min(static_cast<size_t>(count), n);
      const Recovered found = Top(sketch, table, static_cast<int64_t>(n), count);
      ASSERT_EQ(found.indices, LargestOf(estimates, expected_count)) << n << " " << count;
      for (size_t j = 0; j < expected_count; ++j) {
        ASSERT_EQ(found.values[j], estimates[found.indices[j]]);
      }
      ThreadExecutor threads(3);
      ExpectSameRecovered(Top(sketch, table, static_cast<int64_t>(n), count, &threads), found);
    }
  }
}

TEST(TopCandidates, TiesGoToTheLowerIndex) {
  const CountSketch sketch(3, 100, 1);
  EXPECT_EQ(Top(sketch, Floats(300, 0.0f), 1000, 4).indices, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(Top(sketch, Floats(300, 2.5f), 1000, 3).indices, (Indices{0, 1, 2}));  // Either sign.
}

TEST(TopCandidates, AreExactWithManyMoreColumnsThanPairs) {
  constexpr size_t kElements = 60;
  const Floats x = NormalValues(kElements, 3);
  // A pair shares a cell with probability 1 / columns, and has to in three rows of five.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const CountSketch sketch(5, 100 * kElements * kElements, seed);
    const Recovered found = Top(sketch, TableOf(sketch, x), kElements, 10);
    EXPECT_EQ(found.indices, LargestOf(x, 10));
    for (size_t j = 0; j < 10; ++j) EXPECT_EQ(found.values[j], x[found.indices[j]]);
  }
}

TEST(TopCandidates, HoldHeavyHittersWithTheProbabilityOfTheTheory) {
  // An element is lost if its estimate is off by half of it, epsilon |x|. With 3 / epsilon^2
  // columns and seven rows this has probability 0.173 at most by Chebyshev's bound; in practice
  // much less.
  constexpr size_t kElements = 20000;
  const Indices heavy = {3, 1000, 5555, 12344, 19999};
  const Floats x = WithHeavy(kElements, heavy, 60.0f);
  double squared_norm = 0;
  for (float value : x) squared_norm += value * value;
  const double epsilon = 30.0 / std::sqrt(squared_norm);
  const auto columns = static_cast<uint32_t>(3 / (epsilon * epsilon));
  int num_found = 0;
  constexpr uint64_t kSeeds = 40;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const CountSketch sketch(7, columns, seed);
    const Indices found = Top(sketch, TableOf(sketch, x), kElements, 50).indices;
    for (uint32_t i : heavy) num_found += std::binary_search(found.begin(), found.end(), i);
  }
  EXPECT_GE(num_found, (1 - 0.173) * kSeeds * heavy.size());
}

TEST(HeavyMix, HoldsWhatIsHeavyAndFillsUpWithOthers) {
  constexpr size_t kElements = 10000;
  constexpr int64_t kK = 100;
  const Indices heavy = {0, 77, 5000, 9999};
  const CountSketch sketch(7, 3000, 5);
  const Floats table = TableOf(sketch, WithHeavy(kElements, heavy, 100.0f));
  const Floats estimates = EstimatesOf(sketch, table, kElements);
  const Recovered found = Mix(sketch, table, kElements, kK);
  EXPECT_EQ(found.indices.size(), static_cast<size_t>(kK));
  EXPECT_TRUE(CheckIndices(found.indices, kElements).ok());
  for (size_t j = 0; j < found.indices.size(); ++j) {
    EXPECT_EQ(found.values[j], estimates[found.indices[j]]);
  }
  const double threshold = sketch.SquaredNorm(table, SerialExecutor()) / kK;
  Indices expected;
  for (uint32_t i = 0; i < kElements; ++i) {
    if (double{estimates[i]} * estimates[i] >= threshold) expected.push_back(i);
  }
  EXPECT_GE(expected.size(), heavy.size());
  EXPECT_LT(expected.size(), static_cast<size_t>(kK));
  for (const Indices& all : {heavy, expected}) {
    EXPECT_TRUE(std::includes(found.indices.begin(), found.indices.end(), all.begin(), all.end()));
  }
}

TEST(HeavyMix, IsTheSameForEveryNumberOfThreadsAndAnotherForAnotherSeed) {
  constexpr size_t kElements = 200000;
  const CountSketch sketch(5, 5000, 5);
  const Floats table = TableOf(sketch, Gradient(kElements, 1));
  const Recovered found = Mix(sketch, table, kElements, 1000, 1);
  ThreadExecutor threads(3);
  ExpectSameRecovered(Mix(sketch, table, kElements, 1000, 1, &threads), found);
  EXPECT_NE(Mix(sketch, table, kElements, 1000, 2).indices, found.indices);
}

TEST(HeavyMix, FillsUpWithEveryOtherElementAsOften) {
  constexpr uint32_t kElements = 40;
  constexpr int64_t kK = 10;
  const CountSketch sketch(3, 4000, 1);
  Floats x(kElements, 0.01f);
  x[7] = x[20] = x[39] = 5;  // Heavy; the others share the seven places that are left.
  const Floats table = TableOf(sketch, x);
  std::vector<int> counts(kElements);
  constexpr int kSeeds = 3000;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    for (uint32_t i : Mix(sketch, table, kElements, kK, seed).indices) ++counts[i];
  }
  constexpr double kShare = 7.0 / 37;
  const double deviation = std::sqrt(kSeeds * kShare * (1 - kShare));
  for (uint32_t i = 0; i < kElements; ++i) {
    const bool is_heavy = x[i] == 5;
    EXPECT_NEAR(counts[i], is_heavy ? kSeeds : kSeeds * kShare, is_heavy ? 0 : 5 * deviation) << i;
  }
}

TEST(HeavyMix, KeepsTheLargestWhereMoreAreHeavyThanAskedFor) {
  // One huge cell in a few rows changes the median of norms little and many estimates much. Built
  // by hand, since a sketch of a vector has at most about k heavy elements.
  const CountSketch sketch(1, 100, 3);
  const Floats table = TableOf(sketch, Floats(50, 1.0f));
  const Floats estimates = EstimatesOf(sketch, table, 10000);
  const double threshold = sketch.SquaredNorm(table, SerialExecutor()) / 20;
  const auto num_heavy = std::count_if(estimates.begin(), estimates.end(), [&](float estimate) {
    return double{estimate} * estimate >= threshold;
  });
  ASSERT_GT(num_heavy, 20);  // Indices far beyond the vector share its cells.
  EXPECT_EQ(Mix(sketch, table, 10000, 20).indices, LargestOf(estimates, 20));
}

TEST(HeavyMix, SelectsAtRandomFromZeros) {
  const CountSketch sketch(3, 50, 1);
  const Floats table(150, 0.0f);
  const Recovered found = Mix(sketch, table, 1000, 30);
  EXPECT_EQ(found.indices.size(), 30u);
  EXPECT_GT(found.indices.back(), 500u);
  EXPECT_EQ(found.values, Floats(30, 0.0f));
}

TEST(HeavyMix, TakesEverySize) {
  const CountSketch sketch(3, 50, 1);
  for (const uint32_t n : {0u, 1u, 2u, 30u}) {
    const Floats table = TableOf(sketch, NormalValues(n, 4));
    for (const int64_t k : {1, 2, 29, 30, 1000}) {
      const Recovered found = Mix(sketch, table, n, k);
      EXPECT_EQ(found.indices.size(), std::min<size_t>(k, n));
      EXPECT_TRUE(CheckIndices(found.indices, n).ok());
    }
  }
}

TEST(HeavyMix, CountsAnElementOnTheThresholdAsHeavy) {
  // One element, one row: its estimate squared is the squared norm, so with k = 1 it is on the
  // threshold exactly.
  for (float value : {1.0f, 0.1f, 3.3e-20f, 1e38f, -7.77f}) {
    const CountSketch sketch(1, 1 << 20, 1);
    Floats x(1000, 0.0f);
    x[321] = value;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      EXPECT_EQ(Mix(sketch, TableOf(sketch, x), 1000, 1, seed).indices, Indices{321});
    }
  }
}

}  // namespace
}  // namespace tfcompress
