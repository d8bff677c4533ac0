#include "core/sketch/count_sketch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/float_order.h"

namespace tfcompress {
namespace {

// Elements hashed at a time: their cells stay in L1.
constexpr int64_t kChunk = 256;

// Rows alone would leave most cores idle. A stripe is worth its table where it has several times as
// many elements as that has columns.
int64_t NumStripes(int64_t n, int64_t columns) {
  constexpr int64_t kMaxStripes = 8;
  return std::clamp<int64_t>(n / (4 * columns), 1, kMaxStripes);
}

// `value`, or +0 for numbers that a thread which flushes subnormal ones would see as 0.
float Flush(float value) {
  const uint32_t bits = FloatBits(value);
  return FloatFromBits(bits & NormalMask(bits));
}

// `value` with its sign changed where the cell's is negative.
float WithSignOf(SignedCell cell, float value) {
  return FloatFromBits(FloatBits(value) ^ (cell & kCellSignBit));
}

// Adds elements [begin, end) of x to one row.
void InsertInto(const CellHash& hash, const JoinedSpan& x, int64_t begin, int64_t end, float* row) {
  x.ForEachPiece(begin, end, [&](int64_t first, Span<const float> piece) {
    SignedCell cells[kChunk];
    const auto size = static_cast<int64_t>(piece.size());
    for (int64_t at = 0; at < size; at += kChunk) {
      const int64_t count = std::min(kChunk, size - at);
      const float* values = piece.data() + at;
      hash.Fill(static_cast<uint64_t>(first + at), count, cells);
      for (int64_t j = 0; j < count; ++j) {
        float* cell = row + ColumnOf(cells[j]);
        *cell = Flush(*cell + WithSignOf(cells[j], Flush(values[j])));
      }
    }
  });
}

// Integers that sort as floats do, whatever the floating-point mode; the map is its own inverse.
int32_t ToSortable(uint32_t float_bits) {
  const auto bits = static_cast<int32_t>(float_bits);
  return bits ^ static_cast<int32_t>(static_cast<uint32_t>(bits >> 31) & kFloatMagnitudeBits);
}

using Keys = int32_t[kChunk];

// Leaves the median over rows of each column of `keys` in row rows / 2: bubbles the largest to the
// end until the upper half is in place. Branch-free, for the compiler to vectorise.
void SelectMedians(int rows, Keys* keys) {
  for (int last = rows - 1; last >= rows / 2; --last) {
    for (int row = 0; row < last; ++row) {
      for (int64_t j = 0; j < kChunk; ++j) {
        const int32_t a = keys[row][j], b = keys[row + 1][j];
        keys[row][j] = std::min(a, b);
        keys[row + 1][j] = std::max(a, b);
      }
    }
  }
}

// The squares of one row's cells, summed in a fixed order.
double SumOfSquares(Span<const float> row, Executor* executor) {
  constexpr int64_t kLanes = 8;  // Sums that do not wait for each other.
  std::vector<double> blocks(static_cast<size_t>(NumBlocks(static_cast<int64_t>(row.size()))));
  ForEachBlock(executor, static_cast<int64_t>(row.size()),
               [&](int64_t block, int64_t begin, int64_t end) {
                 double lanes[kLanes] = {};
                 for (int64_t i = begin; i < end; ++i) {
                   const double cell = NormalOrZero(row.data()[i]);
                   lanes[(i - begin) % kLanes] += cell * cell;
                 }
                 for (double lane : lanes) blocks[block] += lane;
               });
  double sum = 0;
  for (double block : blocks) sum += block;
  return sum;
}

}  // namespace

void CountSketch::Insert(const JoinedSpan& x, Executor* executor, Span<float> table) const {
  const int64_t n = x.size();
  const int64_t num_stripes = NumStripes(n, columns_);
  const int64_t num_further_cells = (num_stripes - 1) * num_cells();
  // Not initialised here, where one thread would do it.
  const std::unique_ptr<float[]> further(new float[num_further_cells]);
  executor->ParallelFor(rows_ * num_stripes, [&](int64_t task) {
    const int64_t stripe = task / rows_;
    const auto row = static_cast<int>(task % rows_);
    float* cells = stripe == 0 ? table.data() : further.get() + (stripe - 1) * num_cells();
    cells += int64_t{row} * columns_;
    std::fill(cells, cells + columns_, 0.0f);
    InsertInto(RowHash(row), x, n * stripe / num_stripes, n * (stripe + 1) / num_stripes, cells);
  });
  if (num_stripes == 1) return;
  ForEachBlock(executor, num_cells(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t stripe = 1; stripe < num_stripes; ++stripe) {
      const float* cells = further.get() + (stripe - 1) * num_cells();
      for (int64_t i = begin; i < end; ++i) table.data()[i] = Flush(table.data()[i] + cells[i]);
    }
  });
}

void CountSketch::Estimate(Span<const float> table, Executor* executor,
                           Span<float> estimates) const {
  std::vector<CellHash> hashes;
  for (int row = 0; row < rows_; ++row) hashes.push_back(RowHash(row));
  ForEachBlock(
      executor, static_cast<int64_t>(estimates.size()),
      [&](int64_t, int64_t block_begin, int64_t block_end) {
        SignedCell cells[kChunk];
        Keys keys[kMaxRows] = {};
        for (int64_t begin = block_begin; begin < block_end; begin += kChunk) {
          const int64_t count = std::min(kChunk, block_end - begin);
          const float* row_cells = table.data();
          for (int row = 0; row < rows_; ++row, row_cells += columns_) {
            hashes[row].Fill(static_cast<uint64_t>(begin), count, cells);
            for (int64_t j = 0; j < count; ++j) {
              keys[row][j] =
                  ToSortable(FloatBits(WithSignOf(cells[j], row_cells[ColumnOf(cells[j])])));
            }
          }
          SelectMedians(rows_, keys);
          for (int64_t j = 0; j < count; ++j) {
            const int32_t median = keys[rows_ / 2][j];
            const auto bits = static_cast<uint32_t>(ToSortable(static_cast<uint32_t>(median)));
            estimates.data()[begin + j] = FloatFromBits(bits);
          }
        }
      });
}

double CountSketch::SquaredNorm(Span<const float> table, Executor* executor) const {
  std::vector<double> sums(rows_);
  for (int row = 0; row < rows_; ++row) {
    sums[row] =
        SumOfSquares(table.subspan(static_cast<size_t>(row) * columns_, columns_), executor);
  }
  std::nth_element(sums.begin(), sums.begin() + rows_ / 2, sums.end());
  return sums[rows_ / 2];
}

}  // namespace tfcompress
