// Properties of Count Sketch that need no reference implementation: linearity, moments, tails.
#include "core/sketch/count_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "contract_inputs.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/sketch/cell_unit.h"

namespace tfcompress {
namespace {

using Floats = std::vector<float>;

Floats Insert(const CountSketch& sketch, const JoinedSpan& x,
              Executor* executor = SerialExecutor()) {
  Floats table(static_cast<size_t>(sketch.num_cells()), 7.0f);  // Insert overwrites what is there.
  sketch.Insert(x, executor, Span<float>(table));
  return table;
}

Floats Estimate(const CountSketch& sketch, const Floats& table, size_t n,
                Executor* executor = SerialExecutor()) {
  Floats estimates(n, 7.0f);
  sketch.Estimate(table, executor, Span<float>(estimates));
  return estimates;
}

Floats Integers(size_t n, uint64_t seed) {
  Random random(seed);
  Floats values(n);
  for (float& value : values) value = static_cast<float>(random.Below(2001)) - 1000;
  return values;
}

double SquaredNormOf(const Floats& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return sum;
}

// The mean of samples, and its tolerance: five standard errors.
struct Mean {
  double value;
  double tolerance;
};

Mean MeanOf(const std::vector<double>& samples) {
  const auto count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (double sample : samples) squares += (sample - mean) * (sample - mean);
  return {mean, 5 * std::sqrt(squares / count / count)};
}

TEST(CellHash, FillsWhatItSaysOfEachIndex) {
  for (const uint32_t columns : {1u, 2u, 3u, 1000u, 1000000u, 1u << 20, 1u << 27}) {
    const CellHash hash(9, 3, columns);
    for (const uint64_t first : {uint64_t{0}, uint64_t{1000003}, uint64_t{0x7FFFFF00}}) {
      for (const int64_t count : {1, 7, 8, 33, 255}) {
        std::vector<SignedCell> cells(static_cast<size_t>(count));
        hash.Fill(first, count, cells.data());
        for (size_t j = 0; j < cells.size(); ++j) {
          ASSERT_EQ(cells[j], hash(first + j));
          ASSERT_LT(ColumnOf(cells[j]), columns);
        }
      }
    }
  }
}

// Part of what travels: these numbers never change.
TEST(CellHash, IsFrozen) {
  const CellHash hash(42, 1, 1000);
  std::vector<uint32_t> columns;
  std::vector<bool> negative;
  for (uint64_t index : {0, 1, 2, 3, 1000000}) {
    columns.push_back(ColumnOf(hash(index)));
    negative.push_back((hash(index) & kCellSignBit) != 0);
  }
  EXPECT_EQ(columns, (std::vector<uint32_t>{689, 755, 446, 243, 805}));
  EXPECT_EQ(negative, (std::vector<bool>{true, true, true, false, true}));
}

TEST(CellHash, SpreadsColumnsAndSignsEvenlyAndApart) {
  constexpr uint32_t kColumns = 10;
  constexpr int kIndices = 100000;
  for (int row = 0; row < 3; ++row) {
    const CellHash hash(5, row, kColumns);
    std::vector<int> counts(2 * kColumns);
    for (int i = 0; i < kIndices; ++i) {
      const SignedCell cell = hash(static_cast<uint64_t>(i) * 10);  // Keys in decimal steps.
      ++counts[2 * ColumnOf(cell) + (cell >> 31)];
    }
    // 6 standard deviations of Binomial(100000, 1/20).
    for (int count : counts) EXPECT_NEAR(count, kIndices / 20, 414);
  }
}

TEST(CellHash, RowsAndSeedsCollideIndependently) {
  // Indices that share a cell in one row share one in another no more often than by chance.
  constexpr uint32_t kColumns = 100;
  constexpr int kIndices = 20000;
  for (const auto& [seed, row] : {std::pair<uint64_t, int>{1, 1}, {2, 0}, {3, 30}}) {
    const CellHash first(1, 0, kColumns), second(seed, row, kColumns);
    int both = 0;
    for (int i = 0; i < kIndices; i += 2) {
      // A partner in the same cell of the first function.
      uint64_t partner = static_cast<uint64_t>(i) + 100000;
      while (ColumnOf(first(partner)) != ColumnOf(first(i))) ++partner;
      both += ColumnOf(second(partner)) == ColumnOf(second(i));
    }
    EXPECT_NEAR(both, 100, 60);  // 6 standard deviations of Binomial(10000, 1/100).
  }
}

TEST(CountSketch, AddsEachElementToOneCellOfEachRow) {
  constexpr uint32_t kColumns = 77;  // 1000 elements are three stripes.
  const Floats x = Integers(1000, 1);
  Floats expected(3 * kColumns);
  for (int row = 0; row < 3; ++row) {
    const CellHash hash(4, row, kColumns);
    for (size_t i = 0; i < x.size(); ++i) {
      expected[row * kColumns + ColumnOf(hash(i))] += hash(i) >> 31 != 0 ? -x[i] : x[i];
    }
  }
  EXPECT_EQ(Insert(CountSketch(3, kColumns, 4), x), expected);
}

TEST(CountSketch, IsTheSameForEveryNumberOfThreads) {
  // One stripe, several, and the maximum; sizes that are not multiples of any block size.
  for (const auto& [n, columns] : {std::pair<size_t, uint32_t>{300001, 100003},
                                   {300001, 30000},
                                   {300001, 101},
                                   {5, 64},
                                   {0, 3}}) {
    const Floats x = Gradient(n, n);
    const CountSketch sketch(5, columns, 8);
    const Floats table = Insert(sketch, x);
    const Floats estimates = Estimate(sketch, table, n);
    const double squared_norm = sketch.SquaredNorm(table, SerialExecutor());
    for (int num_threads : {2, 3, 16}) {
      ThreadExecutor threads(num_threads);
      EXPECT_TRUE(SameBits(Insert(sketch, x, &threads), table));
      EXPECT_TRUE(SameBits(Estimate(sketch, table, n, &threads), estimates));
      EXPECT_EQ(sketch.SquaredNorm(table, &threads), squared_norm);
    }
  }
}

TEST(CountSketch, DoesNotDependOnHowAVectorIsCut) {
  const Floats x = NormalValues(10000, 1);
  const CountSketch sketch(3, 300, 2);
  const Floats table = Insert(sketch, x);
  const Span<const float> whole(x);
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<Span<const float>> parts;
    for (size_t begin = 0; begin < x.size();) {
      const size_t size = std::min<size_t>(random.Below(round < 10 ? 700 : 4000), x.size() - begin);
      parts.push_back(whole.subspan(begin, size));  // Of size 0, too.
      begin += size;
    }
    parts.push_back({});
    EXPECT_TRUE(SameBits(Insert(sketch, JoinedSpan(parts)), table));
  }
}

TEST(CountSketch, IsLinear) {
  const Floats a = Integers(20000, 1), b = Integers(20000, 2);
  Floats sum(a.size());
  std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<float>());
  const CountSketch sketch(5, 500, 3);
  const Floats table_a = Insert(sketch, a), table_b = Insert(sketch, b);
  Floats table(table_a.size());
  std::transform(table_a.begin(), table_a.end(), table_b.begin(), table.begin(),
                 std::plus<float>());
  EXPECT_EQ(Insert(sketch, sum), table);  // By value: -0 counts as 0.
}

TEST(CountSketch, EstimatesAreMediansOverRows) {
  constexpr size_t kElements = 1027;  // Not a whole number of chunks.
  constexpr uint32_t kColumns = 50;
  const Floats x = NormalValues(kElements, 3);
  for (int rows = 1; rows <= CountSketch::kMaxRows; rows += 2) {
    const CountSketch sketch(rows, kColumns, 6);
    const Floats table = Insert(sketch, x);
    const Floats estimates = Estimate(sketch, table, kElements);
    for (size_t i = 0; i < kElements; ++i) {
      Floats of_rows;
      for (int row = 0; row < rows; ++row) {
        const SignedCell cell = CellHash(6, row, kColumns)(i);
        const float value = table[row * kColumns + ColumnOf(cell)];
        of_rows.push_back(cell >> 31 != 0 ? -value : value);
      }
      std::nth_element(of_rows.begin(), of_rows.begin() + rows / 2, of_rows.end());
      ASSERT_EQ(estimates[i], of_rows[rows / 2]) << rows << " rows, element " << i;
    }
  }
}

TEST(CountSketch, ErrorOfARowHasTheMeanAndMeanSquareOfTheTheory) {
  constexpr uint32_t kColumns = 20;
  const Floats x = NormalValues(60, 1);
  const double squared_norm = SquaredNormOf(x);
  std::vector<double> errors, squared_errors, squared_cells;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const CountSketch sketch(1, kColumns, seed);
    const Floats table = Insert(sketch, x);
    const double error = Estimate(sketch, table, 1)[0] - x[0];
    errors.push_back(error);
    squared_errors.push_back(error * error);
    squared_cells.push_back(sketch.SquaredNorm(table, SerialExecutor()));
  }
  const Mean error = MeanOf(errors), squared_error = MeanOf(squared_errors),
             squared_cell = MeanOf(squared_cells);
  EXPECT_NEAR(error.value, 0, error.tolerance);
  EXPECT_NEAR(squared_error.value, (squared_norm - x[0] * x[0]) / kColumns,
              squared_error.tolerance);
  EXPECT_LT(squared_error.tolerance, 0.1 * squared_error.value);
  EXPECT_NEAR(squared_cell.value, squared_norm, squared_cell.tolerance);
  EXPECT_LT(squared_cell.tolerance, 0.02 * squared_norm);
}

TEST(CountSketch, SquaredNormHasTheVarianceOfTheTheory) {
  constexpr uint32_t kColumns = 25;
  const Floats x = NormalValues(100, 2);
  const double squared_norm = SquaredNormOf(x);
  double fourth_powers = 0;
  for (float value : x) fourth_powers += std::pow(value, 4.0);
  std::vector<double> squared_deviations;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const CountSketch sketch(1, kColumns, seed);
    const double deviation = sketch.SquaredNorm(Insert(sketch, x), SerialExecutor()) - squared_norm;
    squared_deviations.push_back(deviation * deviation);
  }
  const Mean variance = MeanOf(squared_deviations);
  EXPECT_NEAR(variance.value, 2 * (squared_norm * squared_norm - fourth_powers) / kColumns,
              variance.tolerance);
}

TEST(CountSketch, TailsAreWithinChebyshevsBoundOfTheMedian) {
  // With 3 / epsilon^2 columns a row misses by more than epsilon |x| with probability 1/3 at most,
  // the median with the probability that most of the rows do.
  constexpr double kEpsilon = 0.1;
  const Floats x = Gradient(2000, 4);
  const double bound = kEpsilon * std::sqrt(SquaredNormOf(x));
  for (const auto& [rows, probability] : {std::pair<int, double>{1, 1.0 / 3},
                                          {3, 0.2593},
                                          {5, 0.2099},
                                          {9, 0.1448},
                                          {15, 0.0882},
                                          {21, 0.0557}}) {
    size_t num_misses = 0;
    constexpr uint64_t kSeeds = 20;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const CountSketch sketch(rows, 300, seed);
      const Floats estimates = Estimate(sketch, Insert(sketch, x), x.size());
      for (size_t i = 0; i < x.size(); ++i) num_misses += std::fabs(estimates[i] - x[i]) > bound;
    }
    EXPECT_LE(static_cast<double>(num_misses), probability * kSeeds * x.size()) << rows << " rows";
  }
}

TEST(CountSketch, MoreRowsMissLess) {
  const Floats x = NormalValues(20000, 4);
  double before = INFINITY;
  for (int rows : {1, 3, 5, 9, 21}) {
    const CountSketch sketch(rows, 1000, 1);
    const Floats estimates = Estimate(sketch, Insert(sketch, x), x.size());
    double error = 0;
    for (size_t i = 0; i < x.size(); ++i) error += std::pow(estimates[i] - x[i], 2.0);
    EXPECT_LT(error, before) << rows << " rows";
    before = error;
  }
}

TEST(CountSketch, IsExactWhereNothingCollides) {
  // Six elements leave room for 36 binary digits below those of the largest.
  const Floats x = {0.5f, -3.0f, 1e-3f, 0.0f, 1e7f, -2.0f};
  const CountSketch sketch(5, CountSketch::kMaxColumns / 128, 1);
  const Floats table = Insert(sketch, x);
  EXPECT_EQ(Estimate(sketch, table, x.size()), x);
  EXPECT_DOUBLE_EQ(sketch.SquaredNorm(table, SerialExecutor()), SquaredNormOf(x));
}

TEST(CountSketch, LosesNoMoreThanAUnitOfEachElement) {
  const size_t n = 100000;
  Floats x = NormalValues(n, 3);
  for (size_t i = 0; i < n; ++i) x[i] *= std::ldexp(1.0f, -static_cast<int>(i % 90));
  x[7] = -16;
  const double unit = std::ldexp(1.0, 4 + 127 + 17 - 189);  // Of 17 binary digits of n.
  constexpr uint32_t kColumns = 1000;
  const CountSketch sketch(1, kColumns, 5);
  const Floats table = Insert(sketch, x);
  const CellHash hash(5, 0, kColumns);
  std::vector<double> sums(kColumns), errors(kColumns);
  for (size_t i = 0; i < n; ++i) {
    sums[ColumnOf(hash(i))] += WithSignOf(hash(i), x[i]);
    errors[ColumnOf(hash(i))] += unit;
  }
  for (uint32_t c = 0; c < kColumns; ++c)
    ASSERT_NEAR(table[c], sums[c], errors[c] + std::fabs(sums[c]) * 0x1.01p-24);
}

TEST(CountSketch, DoesNotDependOnTheOrderOfElements) {
  // With one cell, every order of the elements gives the same sum, except for signs.
  Floats x = NormalValues(5000, 1);
  const CellHash hash(2, 0, 1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = WithSignOf(hash(i), x[i]);
  const Floats table = Insert(CountSketch(1, 1, 2), x);
  for (size_t i = 0; i < x.size(); ++i) x[i] = WithSignOf(hash(i), x[i]);
  std::sort(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) x[i] = WithSignOf(hash(i), x[i]);
  EXPECT_TRUE(SameBits(Insert(CountSketch(1, 1, 2), x), table));
}

TEST(CountSketch, TheLargestSumsOfTheLargestElementsAreInfinite) {
  const float most = std::numeric_limits<float>::max();
  const CellHash hash(2, 0, 1);
  for (size_t n : {1, 2, 3, 4, 1000, 1023, 1024}) {
    Floats x(n, most);
    for (size_t i = 0; i < n; ++i) x[i] = WithSignOf(hash(i), x[i]);
    EXPECT_EQ(Insert(CountSketch(1, 1, 2), x)[0], n == 1 ? most : INFINITY) << n;
    for (size_t i = n / 2; i < 2 * (n / 2); ++i) x[i] = -x[i];
    if (n % 2 != 0) continue;
    EXPECT_EQ(FloatBits(Insert(CountSketch(1, 1, 2), x)[0]), 0u) << n;
  }
}

TEST(CountSketch, OneCellHoldsTheSignedSum) {
  const CountSketch sketch(1, 1, 0);
  const Floats table = Insert(sketch, Floats{1, 2, 4});
  const CellHash hash(0, 0, 1);
  float sum = 0;
  for (uint64_t i = 0; i < 3; ++i) sum += (hash(i) >> 31 != 0 ? -1.0f : 1.0f) * (1 << i);
  EXPECT_EQ(table, Floats{sum});
}

TEST(CountSketch, SubnormalSumsCountAsZero) {
  const float subnormal = FloatFromBits(1000);
  const CountSketch sketch(3, 16, 1);
  EXPECT_TRUE(SameBits(Insert(sketch, Floats(8, subnormal)), Floats(3 * 16, 0.0f)));
  // Differences that are subnormal while their terms are not.
  const float least = FloatFromBits(kLeastNormalBits);
  Floats x(200, least);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = 1.5f * least;
  for (float cell : Insert(sketch, x)) EXPECT_EQ(cell, NormalOrZero(cell));
}

}  // namespace
}  // namespace tfcompress
