// A flat tensor seen as a matrix: rows of its last dimension. The gradient of a dense layer is a
// sum of outer products: the same rows and the same columns are large together, and have the same
// signs.
#ifndef TFCOMPRESS_CORE_GRID_H_
#define TFCOMPRESS_CORE_GRID_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tfcompress {

// Rows of `width` elements. Element 0 stands in column first_column < width of row 0: a tensor may
// be a piece of a larger one. A width of 0 means that nothing is known, as of a vector.
struct Grid {
  uint32_t width = 0;
  uint32_t first_column = 0;

  bool known() const { return width > 0; }
  // The grid of what begins at element `begin`.
  Grid From(uint64_t begin) const {
    if (!known()) return *this;
    return {width, static_cast<uint32_t>((first_column + begin) % width)};
  }
  uint64_t NumRows(uint32_t n) const { return (uint64_t{first_column} + n + width - 1) / width; }
};

// The elements [begin, end) of a list of indices, all those of one row. Index i stands in column
// i - first.
struct GridRow {
  uint32_t row;
  size_t begin;
  size_t end;
  uint32_t first;  // Below 0, modulo 2^32, where the row begins before element 0.
};

// Calls visit(GridRow) for each row that has some of `indices`, a Span or Support of them,
// ascending.
template <typename Indices, typename Visit>
void ForEachRow(const Grid& grid, Indices indices, const Visit& visit) {
  const size_t size = indices.size();
  size_t end = 0;
  for (size_t begin = 0; begin < size; begin = end) {
    const uint64_t row = (uint64_t{indices[begin]} + grid.first_column) / grid.width;
    const uint64_t first = row * grid.width - grid.first_column;
    const uint64_t next_row = first + grid.width;
    do ++end;
    while (end < size && indices[end] < next_row);
    visit(GridRow{static_cast<uint32_t>(row), begin, end, static_cast<uint32_t>(first)});
  }
}

// Rows or columns with about the same number of chosen elements are in one class: 0 without any,
// then 1, 2, 3 to 5, 6 to 10, ..., each twice the one before it.
inline constexpr int kNumCountClasses = 16;
inline uint8_t CountClass(uint32_t count) {
  const uint64_t three_halves = (uint64_t{count} * 3) >> 1;
  const int num_bits = three_halves == 0 ? 0 : 64 - __builtin_clzll(three_halves);
  return static_cast<uint8_t>(std::min(num_bits, kNumCountClasses - 1));
}

// The classes of the rows and the columns of `indices`.
struct GridClasses {
  std::vector<uint8_t> rows;
  std::vector<uint8_t> columns;

  template <typename Indices>
  static GridClasses Of(const Grid& grid, uint32_t n, const Indices& indices) {
    std::vector<uint32_t> row_counts(grid.NumRows(n)), column_counts(grid.width);
    ForEachRow(grid, indices, [&](const GridRow& row) {
      row_counts[row.row] = static_cast<uint32_t>(row.end - row.begin);
      for (size_t i = row.begin; i < row.end; ++i) ++column_counts[indices[i] - row.first];
    });
    GridClasses classes{std::vector<uint8_t>(row_counts.size()),
                        std::vector<uint8_t>(column_counts.size())};
    std::transform(row_counts.begin(), row_counts.end(), classes.rows.begin(), CountClass);
    std::transform(column_counts.begin(), column_counts.end(), classes.columns.begin(), CountClass);
    return classes;
  }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_GRID_H_
