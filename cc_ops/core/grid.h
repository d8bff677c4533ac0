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

// Calls visit(i, row, column) for all `indices`, a Span or Support of them, ascending. Divides only
// where a row begins.
template <typename Indices, typename Visit>
void ForEachCell(const Grid& grid, const Indices& indices, const Visit& visit) {
  uint64_t row = 0;
  uint64_t row_begin = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint64_t position = uint64_t{indices[i]} + grid.first_column;
    if (position - row_begin >= grid.width) {
      row = position / grid.width;
      row_begin = row * grid.width;
    }
    visit(i, static_cast<uint32_t>(row), static_cast<uint32_t>(position - row_begin));
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
    ForEachCell(grid, indices, [&](size_t, uint32_t row, uint32_t column) {
      ++row_counts[row];
      ++column_counts[column];
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
