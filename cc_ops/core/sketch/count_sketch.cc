#include "core/sketch/count_sketch.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/float_order.h"
#include "core/sketch/cell_unit.h"

namespace tfcompress {
namespace {

// Elements hashed at a time: their cells stay in L1.
constexpr int64_t kChunk = 256;

// Number of stripes of elements per row: rows alone would leave most cores idle. A stripe pays for
// its table if it has several times as many elements as there are columns.
int64_t NumStripes(int64_t n, int64_t columns) {
  constexpr int64_t kMaxStripes = 8;
  return std::clamp<int64_t>(n / (4 * columns), 1, kMaxStripes);
}

// Adds elements [begin, end) of x to one row, in units. Prefetches the cells of a chunk: a row is
// larger than the caches near a core, and so the cache misses overlap.
void InsertInto(const CellHash& hash, const CellUnit& unit, const JoinedSpan& x, int64_t begin,
                int64_t end, int64_t* row) {
  x.ForEachPiece(begin, end, [&](int64_t first, Span<const float> piece) {
    SignedCell cells[kChunk];
    const auto size = static_cast<int64_t>(piece.size());
    for (int64_t at = 0; at < size; at += kChunk) {
      const int64_t count = std::min(kChunk, size - at);
      const float* values = piece.data() + at;
      hash.Fill(static_cast<uint64_t>(first + at), count, cells);
      for (int64_t j = 0; j < count; ++j) __builtin_prefetch(row + ColumnOf(cells[j]), 1, 2);
      for (int64_t j = 0; j < count; ++j)
        row[ColumnOf(cells[j])] += unit.CountOf(WithSignOf(cells[j], values[j]));
    }
  });
}

// Sorts each pair of a chunk: the smaller goes to `low`, the larger to `high`.
void Sort(int32_t* __restrict low, int32_t* __restrict high) {
  for (int64_t j = 0; j < kChunk; ++j) {
    const int32_t a = low[j], b = high[j];
    low[j] = a < b ? a : b;
    high[j] = a < b ? b : a;
  }
}

// The sum of one row from the counts of stripes, which may be added in any order.
class RowSum {
 public:
  using Counts = std::unique_ptr<int64_t[]>;

  // Returns counts for a stripe to continue: those of a finished stripe, or zeros if there are
  // none.
  Counts Take(uint32_t columns) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!left_.empty()) {
        Counts counts = std::move(left_.back());
        left_.pop_back();
        return counts;
      }
    }
    return std::make_unique<int64_t[]>(columns);
  }

  // Takes back the counts of a finished stripe; returns the number of finished stripes.
  int64_t Leave(Counts counts) {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_.push_back(std::move(counts));
    return ++num_stripes_;
  }

  // Overwrites `row` after all stripes have finished, and frees the counts.
  void Write(const CellUnit& unit, Span<float> row) {
    int64_t* sums = left_[0].get();
    for (size_t other = 1; other < left_.size(); ++other)
      for (size_t i = 0; i < row.size(); ++i) sums[i] += left_[other][i];
    for (size_t i = 0; i < row.size(); ++i) row.data()[i] = unit.ValueOf(sums[i]);
    left_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<Counts> left_;
  int64_t num_stripes_ = 0;
};

// Elements estimated at a time: enough to amortize page lookups of a row, and few enough that their
// keys stay in the caches near a core.
constexpr int64_t kSpan = 64 * kChunk;

// Estimates spans of consecutive elements.
class Estimator {
 public:
  Estimator(const std::vector<CellHash>& hashes, uint32_t columns, const float* table)
      : hashes_(hashes), columns_(columns), table_(table), keys_(hashes.size() * kSpan) {}

  // Estimates elements [first, first + count), count <= kSpan.
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

  // Fills the keys of a row. Prefetches the cells of a chunk, as inserting does.
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

  // Returns the medians over rows of a chunk: bubbles the largest keys to the last rows until the
  // upper half is sorted. No branch depends on the keys.
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

// Sums the squares of one row's cells in a fixed order.
double SumOfSquares(Span<const float> row, Executor* executor) {
  constexpr int64_t kLanes = 8;  // Independent partial sums.
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
  const CellUnit unit(x.MaxMagnitude(executor), static_cast<uint64_t>(n));
  const int64_t num_stripes = NumStripes(n, columns_);
  std::vector<RowSum> sums(rows_);
  executor->ParallelFor(rows_ * num_stripes, [&](int64_t task) {
    const auto row = static_cast<int>(task / num_stripes);
    const int64_t stripe = task % num_stripes;
    RowSum::Counts counts = sums[row].Take(columns_);
    InsertInto(RowHash(row), unit, x, n * stripe / num_stripes, n * (stripe + 1) / num_stripes,
               counts.get());
    if (sums[row].Leave(std::move(counts)) < num_stripes) return;
    sums[row].Write(unit, table.subspan(size_t{columns_} * row, columns_));
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
