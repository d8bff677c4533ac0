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

// Adds elements [begin, end) of x to one row. Asks for the cells of a chunk before it touches any:
// a row is larger than the caches near a core, and so the waits overlap.
void InsertInto(const CellHash& hash, const JoinedSpan& x, int64_t begin, int64_t end, float* row) {
  x.ForEachPiece(begin, end, [&](int64_t first, Span<const float> piece) {
    SignedCell cells[kChunk];
    const auto size = static_cast<int64_t>(piece.size());
    for (int64_t at = 0; at < size; at += kChunk) {
      const int64_t count = std::min(kChunk, size - at);
      const float* values = piece.data() + at;
      hash.Fill(static_cast<uint64_t>(first + at), count, cells);
      for (int64_t j = 0; j < count; ++j) __builtin_prefetch(row + ColumnOf(cells[j]), 1, 2);
      for (int64_t j = 0; j < count; ++j) {
        float* cell = row + ColumnOf(cells[j]);
        *cell = Flush(*cell + WithSignOf(cells[j], Flush(values[j])));
      }
    }
  });
}

// Integers that sort as floats do, whatever the floating-point mode; the map is its own inverse.
int32_t ToSortable(int32_t float_bits) {
  return float_bits ^ ((float_bits >> 31) & static_cast<int32_t>(kFloatMagnitudeBits));
}

// Leaves the smaller of each pair of a chunk in `low`, the larger in `high`.
void Sort(int32_t* __restrict low, int32_t* __restrict high) {
  for (int64_t j = 0; j < kChunk; ++j) {
    const int32_t a = low[j], b = high[j];
    low[j] = a < b ? a : b;
    high[j] = a < b ? b : a;
  }
}

// Elements estimated at a time: enough that a row's pages, once looked up, serve many of them, and
// few enough that their keys stay near a core.
constexpr int64_t kSpan = 64 * kChunk;

// Estimates spans of consecutive elements.
class Estimator {
 public:
  Estimator(const std::vector<CellHash>& hashes, uint32_t columns, const float* table)
      : hashes_(hashes), columns_(columns), table_(table), keys_(hashes.size() * kSpan) {}

  // Those of [first, first + count), count <= kSpan.
  void Estimate(int64_t first, int64_t count, float* estimates) {
    for (size_t row = 0; row < hashes_.size(); ++row) ReadRow(row, first, count);
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int32_t* medians = SelectMedians(begin);
      const int64_t end = std::min(begin + kChunk, count);
      for (int64_t j = begin; j < end; ++j) {
        const int32_t bits = ToSortable(medians[j - begin]);
        estimates[j] = FloatFromBits(static_cast<uint32_t>(bits));
      }
    }
  }

 private:
  int32_t* KeysOf(size_t row) { return keys_.data() + row * kSpan; }

  // Fills the keys of a row. Asks for the cells of a chunk first, as inserting does.
  void ReadRow(size_t row, int64_t first, int64_t count) {
    const float* row_cells = table_ + row * columns_;
    SignedCell cells[kChunk];
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int64_t size = std::min(kChunk, count - begin);
      int32_t* keys = KeysOf(row) + begin;
      hashes_[row].Fill(static_cast<uint64_t>(first + begin), size, cells);
      for (int64_t j = 0; j < size; ++j) __builtin_prefetch(row_cells + ColumnOf(cells[j]), 0, 2);
      for (int64_t j = 0; j < size; ++j) {
        const float value = WithSignOf(cells[j], row_cells[ColumnOf(cells[j])]);
        keys[j] = ToSortable(static_cast<int32_t>(FloatBits(value)));
      }
    }
  }

  // The medians over rows of a chunk: bubbles the largest keys to the last rows until the upper
  // half is there. Needs no branch that depends on the keys.
  const int32_t* SelectMedians(int64_t begin) {
    const size_t middle = hashes_.size() / 2;
    for (size_t last = hashes_.size() - 1; last >= std::max<size_t>(middle, 1); --last) {
      for (size_t row = 0; row < last; ++row) Sort(KeysOf(row) + begin, KeysOf(row + 1) + begin);
    }
    return KeysOf(middle) + begin;
  }

  const std::vector<CellHash>& hashes_;
  size_t columns_;
  const float* table_;
  std::vector<int32_t> keys_;
};

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
      executor, static_cast<int64_t>(estimates.size()), [&](int64_t, int64_t begin, int64_t end) {
        Estimator estimator(hashes, columns_, table.data());
        for (int64_t first = begin; first < end; first += kSpan) {
          estimator.Estimate(first, std::min(kSpan, end - first), estimates.data() + first);
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
