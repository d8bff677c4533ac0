// The products and the steps of low-rank factors, beside plain ones in double precision.
#include "core/linear/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "contract_inputs.h"
#include "core/crc32c.h"
#include "core/hash.h"
#include "core/linear/orthonormalize.h"
#include "expect_refused.h"

namespace tfcompress {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Tall, wide, several strips and tiles, and sizes that are no multiples of vectors.
const std::vector<MatrixShape>& Shapes() {
  static const auto* shapes =
      new std::vector<MatrixShape>{{1, 1}, {3, 5}, {700, 7}, {17, 2500}, {600, 1030}};
  return *shapes;
}

// The matrices of one rank, and a step's results of it.
struct Rank {
  std::vector<Floats> matrices;
  std::vector<Floats> decoded;
  std::vector<Floats> residuals;
  std::vector<Floats> last_right;  // Of the step before; then of this one.
  Floats left;                     // Products first, orthonormal then.
  Floats right;
  bool finite = false;
};

template <typename T>
std::vector<T*> PointersTo(std::vector<Floats>* vectors) {
  std::vector<T*> pointers;
  for (Floats& vector : *vectors) pointers.push_back(vector.data());
  return pointers;
}

Rank MakeRank(const std::vector<MatrixShape>& shapes, int rank, uint64_t seed) {
  Rank made;
  for (const MatrixShape& shape : shapes) {
    made.matrices.push_back(NormalValues(static_cast<size_t>(shape.rows * shape.columns), ++seed));
    made.last_right.emplace_back(static_cast<size_t>(rank * shape.columns));
  }
  made.decoded = made.residuals = made.matrices;
  return made;
}

// A step of all ranks; `executors` has one for each.
void Step(const LowRank& low_rank, uint64_t seed, float scale,
          const std::vector<Executor*>& executors, std::vector<Rank>* ranks) {
  const auto mean_of = [&](Floats Rank::* factors) {
    Floats mean(((*ranks)[0].*factors).size());
    for (Rank& rank : *ranks) {
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += (rank.*factors)[i];
    }
    for (float& value : mean) value /= static_cast<float>(ranks->size());
    for (Rank& rank : *ranks) rank.*factors = mean;
  };
  for (size_t r = 0; r < ranks->size(); ++r) {
    Rank& rank = (*ranks)[r];
    rank.left.resize(static_cast<size_t>(low_rank.left_size()));
    ASSERT_TRUE(low_rank
                    .Left(PointersTo<const float>(&rank.matrices),
                          PointersTo<const float>(&rank.last_right), seed, executors[r],
                          Span<float>(rank.left))
                    .ok());
  }
  mean_of(&Rank::left);
  for (size_t r = 0; r < ranks->size(); ++r) {
    Rank& rank = (*ranks)[r];
    rank.right.resize(static_cast<size_t>(low_rank.right_size()));
    ASSERT_TRUE(low_rank
                    .Right(PointersTo<const float>(&rank.matrices), executors[r],
                           Span<float>(rank.left), Span<float>(rank.right))
                    .ok());
  }
  mean_of(&Rank::right);
  for (size_t r = 0; r < ranks->size(); ++r) {
    Rank& rank = (*ranks)[r];
    ASSERT_TRUE(low_rank
                    .Decode(PointersTo<const float>(&rank.matrices), rank.left, rank.right, scale,
                            executors[r], PointersTo<float>(&rank.decoded),
                            PointersTo<float>(&rank.residuals), &rank.finite)
                    .ok());
    size_t begin = 0;
    for (Floats& factor : rank.last_right) {
      std::copy_n(rank.right.begin() + static_cast<int64_t>(begin), factor.size(), factor.begin());
      begin += factor.size();
    }
  }
}

// The product of count vectors of a left and a right factor, row by row.
Doubles Product(const float* left, const float* right, int count, const MatrixShape& shape) {
  Doubles product(static_cast<size_t>(shape.rows * shape.columns));
  for (int64_t i = 0; i < shape.rows; ++i) {
    for (int64_t j = 0; j < shape.columns; ++j) {
      for (int k = 0; k < count; ++k) {
        product[static_cast<size_t>(i * shape.columns + j)] +=
            double{left[k * shape.rows + i]} * right[k * shape.columns + j];
      }
    }
  }
  return product;
}

double Dot(const float* a, const float* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += double{a[i]} * b[i];
  return sum;
}

class LowRankTest : public testing::TestWithParam<int> {};

TEST_P(LowRankTest, ProductsAreThoseOfDoublePrecision) {
  const int rank = GetParam();
  for (const MatrixShape& shape : Shapes()) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns));
    const Floats m = NormalValues(static_cast<size_t>(shape.rows * shape.columns), 1);
    const Floats right = NormalValues(static_cast<size_t>(rank * shape.columns), 2);
    Floats left(static_cast<size_t>(rank * shape.rows), 9.0f);
    TimesRight(m.data(), shape, right.data(), rank, {0, shape.rows}, left.data());
    for (int k = 0; k < rank; ++k) {
      for (int64_t i = 0; i < shape.rows; ++i) {
        const double expected =
            Dot(m.data() + i * shape.columns, right.data() + k * shape.columns, shape.columns);
        ASSERT_NEAR(left[static_cast<size_t>(k * shape.rows + i)], expected, 1e-3);
      }
    }
    // Some of the rows and columns.
    const Range rows{shape.rows / 3, shape.rows}, columns{shape.columns / 2, shape.columns / 2 + 1};
    Floats of_column(static_cast<size_t>(rank), 9.0f);
    TransposeTimesLeft(m.data(), shape, left.data(), rank, rows, columns, of_column.data());
    for (int k = 0; k < rank; ++k) {
      double expected = 0, magnitude = 0;
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        const double product = double{m[static_cast<size_t>(i * shape.columns + columns.begin)]} *
                               left[static_cast<size_t>(k * shape.rows + i)];
        expected += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(of_column[static_cast<size_t>(k)], expected, 1e-6 * magnitude);
    }
    Floats product(m.size()), difference(m.size());
    ASSERT_TRUE(Expand(m.data(), shape, left.data(), right.data(), rank, 2.0f, {0, shape.rows},
                       product.data(), difference.data()));
    const Doubles expected = Product(left.data(), right.data(), rank, shape);
    for (size_t i = 0; i < m.size(); ++i) {
      ASSERT_NEAR(product[i], 2 * expected[i], 1e-5 * (1 + std::abs(expected[i])) * 50);
      ASSERT_EQ(difference[i], m[i] - product[i] / 2);
    }
  }
}

TEST_P(LowRankTest, AStepProjectsTheMeanAndLosesNothing) {
  const int rank = GetParam();
  const LowRank low_rank(rank, Shapes());
  std::vector<Rank> ranks = {MakeRank(Shapes(), rank, 100), MakeRank(Shapes(), rank, 200),
                             MakeRank(Shapes(), rank, 300)};
  ThreadExecutor two(2), three(3);
  const std::vector<Executor*> executors = {SerialExecutor(), &two, &three};
  for (uint64_t step = 0; step < 2; ++step) {
    Step(low_rank, step, 1.0f, executors, &ranks);
    int64_t left_begin = 0, right_begin = 0;
    for (size_t i = 0; i < Shapes().size(); ++i) {
      const MatrixShape& shape = Shapes()[i];
      SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns));
      const float* left = ranks[0].left.data() + left_begin;
      // Orthonormal, or zero where there are no more directions.
      for (int k = 0; k < rank; ++k) {
        for (int l = 0; l <= k; ++l) {
          const double dot = Dot(left + k * shape.rows, left + l * shape.rows, shape.rows);
          const bool exists = k < shape.rows && k < shape.columns;
          ASSERT_NEAR(dot, k == l && exists ? 1.0 : 0.0, 1e-6);
        }
      }
      const Doubles expected = Product(left, ranks[0].right.data() + right_begin, rank, shape);
      for (size_t j = 0; j < expected.size(); ++j) {
        double mean_of_matrices = 0, mean_of_residuals = 0;
        for (const Rank& each : ranks) {
          ASSERT_TRUE(each.finite);
          ASSERT_EQ(each.decoded[i][j], ranks[0].decoded[i][j]);
          mean_of_matrices += each.matrices[i][j] / 3.0;
          mean_of_residuals += each.residuals[i][j] / 3.0;
        }
        const double decoded = ranks[0].decoded[i][j];
        ASSERT_NEAR(decoded, expected[j], 1e-5);
        ASSERT_NEAR(mean_of_matrices, decoded + mean_of_residuals, 1e-6);
      }
      left_begin += rank * shape.rows;
      right_begin += rank * shape.columns;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LowRankTest, testing::Values(1, 2, 4, 7));

TEST(LowRank, FindsAMatrixOfItsRank) {
  const MatrixShape shape{200, 90};
  const Floats left = NormalValues(2 * 200, 1), right = NormalValues(2 * 90, 2);
  const Doubles matrix = Product(left.data(), right.data(), 2, shape);
  std::vector<Rank> ranks = {MakeRank({shape}, 4, 0)};
  ranks[0].matrices = {Floats(matrix.begin(), matrix.end())};
  const LowRank low_rank(4, {shape});
  for (uint64_t step = 0; step < 3; ++step) {
    Step(low_rank, step, 1.0f, {SerialExecutor()}, &ranks);
    for (const float residual : ranks[0].residuals[0]) ASSERT_NEAR(residual, 0, 2e-5);
  }
}

TEST(LowRank, FindsTheLargestDirectionsWithAWarmStart) {
  // Of the singular values 1, 0.9, 0.8, ... those of the largest magnitude are kept after some
  // steps.
  const MatrixShape shape{64, 32};
  Floats matrix(64 * 32);
  for (size_t i = 0; i < 32; ++i) matrix[i * 32 + i] = std::pow(0.7f, static_cast<float>(i));
  std::vector<Rank> ranks = {MakeRank({shape}, 2, 0)};
  ranks[0].matrices = {matrix};
  const LowRank low_rank(2, {shape});
  for (uint64_t step = 0; step < 30; ++step) {
    Step(low_rank, step, 1.0f, {SerialExecutor()}, &ranks);
  }
  for (size_t i = 0; i < 32; ++i) {
    const float expected = i < 2 ? 0 : matrix[i * 32 + i];
    EXPECT_NEAR(ranks[0].residuals[0][i * 32 + i], expected, 1e-5);
  }
}

TEST(LowRank, AMatrixOfZerosBeginsAnew) {
  const MatrixShape shape{40, 30};
  std::vector<Rank> ranks = {MakeRank({shape}, 2, 0)};
  ranks[0].matrices = {Floats(1200)};
  const LowRank low_rank(2, {shape});
  Step(low_rank, 0, 1.0f, {SerialExecutor()}, &ranks);
  EXPECT_TRUE(ranks[0].finite);
  EXPECT_EQ(ranks[0].decoded[0], Floats(1200));
  EXPECT_EQ(ranks[0].last_right[0], Floats(60));
  ranks[0].matrices = {NormalValues(1200, 1)};
  Step(low_rank, 1, 1.0f, {SerialExecutor()}, &ranks);
  EXPECT_NE(ranks[0].decoded[0], Floats(1200));
}

TEST(LowRank, TakesMagnitudesThatSquaresDoNot) {
  for (const float scale : {1e-30f, 1e30f}) {
    const MatrixShape shape{40, 30};
    std::vector<Rank> ranks = {MakeRank({shape}, 2, 0)};
    for (float& value : ranks[0].matrices[0]) value *= scale;
    const LowRank low_rank(2, {shape});
    for (uint64_t step = 0; step < 3; ++step) {
      Step(low_rank, step, 1.0f, {SerialExecutor()}, &ranks);
      ASSERT_TRUE(ranks[0].finite);
      const double given = SquaredNorm(ranks[0].matrices[0].data(), 1200);
      const double left = SquaredNorm(ranks[0].residuals[0].data(), 1200);
      EXPECT_LT(left, 0.95 * given);
    }
  }
}

TEST(LowRank, WhatIsNotFiniteMakesEverythingNaN) {
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
    const std::vector<MatrixShape> shapes = {{40, 30}, {20, 20}};
    std::vector<Rank> ranks = {MakeRank(shapes, 2, 0), MakeRank(shapes, 2, 7)};
    ranks[1].matrices[0][1199] = bad;
    const LowRank low_rank(2, shapes);
    Step(low_rank, 0, 1.0f, {SerialExecutor(), SerialExecutor()}, &ranks);
    for (const Rank& rank : ranks) {
      EXPECT_FALSE(rank.finite);
      for (const Floats& decoded : rank.decoded) {
        for (const float value : decoded) ASSERT_TRUE(std::isnan(value));
      }
    }
  }
}

TEST(LowRank, ResidualsMayTakeThePlaceOfMatrices) {
  std::vector<Rank> ranks = {MakeRank(Shapes(), 3, 0)};
  const LowRank low_rank(3, Shapes());
  Step(low_rank, 0, 2.0f, {SerialExecutor()}, &ranks);
  Rank& rank = ranks[0];
  std::vector<Floats> in_place = rank.matrices, decoded = rank.decoded;
  bool finite = false;
  ASSERT_TRUE(low_rank
                  .Decode(PointersTo<const float>(&in_place), rank.left, rank.right, 2.0f,
                          SerialExecutor(), PointersTo<float>(&decoded),
                          PointersTo<float>(&in_place), &finite)
                  .ok());
  EXPECT_EQ(in_place, rank.residuals);
  EXPECT_EQ(decoded, rank.decoded);
}

TEST(LowRank, RefusesOtherSizes) {
  const LowRank low_rank(2, {{40, 30}});
  EXPECT_EQ(low_rank.left_size(), 80);
  EXPECT_EQ(low_rank.right_size(), 60);
  Rank rank = MakeRank({{40, 30}}, 2, 0);
  const auto matrices = PointersTo<const float>(&rank.matrices);
  Floats left(79), right(60);
  ExpectError(low_rank.Right(matrices, SerialExecutor(), Span<float>(left), Span<float>(right)),
              StatusCode::kInvalidArgument, "left factors of 79 floats, expected 80");
  left.resize(80);
  right.resize(61);
  EXPECT_EQ(
      low_rank.Right(matrices, SerialExecutor(), Span<float>(left), Span<float>(right)).code(),
      StatusCode::kInvalidArgument);
}

TEST(Orthonormalize, KeepsTheSpaceAndClearsWhatDepends) {
  constexpr int64_t kSize = 501;
  Floats vectors = NormalValues(4 * kSize, 1);
  // Nearly the first one; the sum of the first two.
  for (int64_t i = 0; i < kSize; ++i) {
    vectors[2 * kSize + i] = vectors[i] + 1e-3f * vectors[2 * kSize + i];
    vectors[3 * kSize + i] = vectors[i] + vectors[kSize + i];
  }
  const Floats given = vectors;
  Orthonormalize(vectors.data(), 4, kSize);
  for (int k = 0; k < 4; ++k) {
    Doubles left(given.begin() + k * kSize, given.begin() + (k + 1) * kSize);
    for (int l = 0; l < 4; ++l) {
      const float* other = vectors.data() + l * kSize;
      const double expected = k == l && k < 3 ? 1.0 : 0.0;
      EXPECT_NEAR(Dot(vectors.data() + k * kSize, other, kSize), expected, 1e-6);
      const double share = Dot(given.data() + k * kSize, other, kSize);
      for (int64_t i = 0; i < kSize; ++i) left[static_cast<size_t>(i)] -= share * other[i];
    }
    for (const double value : left) EXPECT_NEAR(value, 0, 1e-5);
  }
}

// Bits of a step, with all instructions and with few: ctest runs this under each TFC_SIMD.
TEST(LowRankGolden, AStepGivesTheSameBits) {
  const LowRank low_rank(7, Shapes());
  std::vector<Rank> ranks = {MakeRank(Shapes(), 7, 100)};
  for (Floats& matrix : ranks[0].matrices) {
    tfcompress::Random random(matrix.size());
    for (float& value : matrix) value = random.NextFloat() - 0.5f;
  }
  const auto crc = [](const Floats& floats) {
    return Crc32c({reinterpret_cast<const uint8_t*>(floats.data()), 4 * floats.size()});
  };
  Step(low_rank, 5, 1.0f, {SerialExecutor()}, &ranks);
  Step(low_rank, 6, 1.0f, {SerialExecutor()}, &ranks);
  EXPECT_EQ(crc(ranks[0].left), 4250592429u);
  EXPECT_EQ(crc(ranks[0].right), 156607094u);
  EXPECT_EQ(crc(ranks[0].residuals.back()), 1491049494u);
}

}  // namespace
}  // namespace tfcompress
