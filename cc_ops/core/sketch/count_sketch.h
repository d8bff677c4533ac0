// Count Sketch (Charikar, Chen and Farach-Colton): a linear map of n floats to a small table from
// which every element can be estimated. Sketched-SGD 3 and 5.2; FORMAT.md, "Linear payloads".
//
// Each row adds every element, with a random sign, to a random column. An element's estimate is the
// median over rows of its cells, signs undone: for one row the error has mean 0 and mean square
// (|x|^2 - x_i^2) / columns. Tables of the same shape and seed add up to the table of the sum.
#ifndef TFCOMPRESS_CORE_SKETCH_COUNT_SKETCH_H_
#define TFCOMPRESS_CORE_SKETCH_COUNT_SKETCH_H_

#include <cstdint>

#include "core/executor.h"
#include "core/float_order.h"
#include "core/host_device.h"
#include "core/joined_span.h"
#include "core/sketch/cell_hash.h"
#include "core/span.h"

namespace tfcompress {

// Integers that sort as floats do, -0 before +0; the map is its own inverse. Estimates are medians
// in this order.
TFC_HOST_DEVICE inline int32_t ToSortable(int32_t float_bits) {
  return float_bits ^ ((float_bits >> 31) & static_cast<int32_t>(kFloatMagnitudeBits));
}

// The hash functions of a table. The caller owns the cells, rows end to end.
class CountSketch {
 public:
  static constexpr int kMaxRows = 31;
  static constexpr uint32_t kMaxColumns = uint32_t{1} << 27;

  // `rows` is odd, so that a median is one of the estimates; at most kMaxRows. `columns` is from 1
  // to kMaxColumns.
  CountSketch(int rows, uint32_t columns, uint64_t seed)
      : rows_(rows), columns_(columns), seed_(seed) {}

  int64_t num_cells() const { return int64_t{rows_} * columns_; }

  // Overwrites `table`, of num_cells(), with the sketch of finite elements. The bits do not depend
  // on the executor: sums are exact in units (cell_unit.h), and rounded once. Reads x once, and
  // once more for each row. Takes 8 bytes per column for each working thread. Subnormal sums count
  // as 0.
  void Insert(const JoinedSpan& x, Executor* executor, Span<float> table) const;

  // Overwrites `estimates` with the estimates of elements [0, estimates.size()). Does not check
  // `table`: cells that are not finite give estimates that are not finite.
  void Estimate(Span<const float> table, Executor* executor, Span<float> estimates) const;

  // Estimates the sum of squares of the elements: the median over rows of the sum of squared cells,
  // whose mean is exact (Alon, Matias and Szegedy; Algorithm 1 of Sketched-SGD, line 1).
  double SquaredNorm(Span<const float> table, Executor* executor) const;

 private:
  CellHash RowHash(int row) const { return CellHash(seed_, row, columns_); }

  int rows_;
  uint32_t columns_;
  uint64_t seed_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_COUNT_SKETCH_H_
