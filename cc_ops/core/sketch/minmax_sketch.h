// MinMaxSketch (SketchML 3.3, SKCompress 4.2): stores a small number for each of many keys in fewer
// cells than keys. Insertion keeps the least number in a cell, a query returns the greatest of the
// cells of its key: collisions make the answer smaller, never larger.
//
// With m equally likely values, lambda keys for each column and r rows, a query is exact with the
// probability mean_j [1 - (1 - e^(-lambda j / m))^r], where j = 0 ... m - 1 counts smaller values.
#ifndef TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_
#define TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/sketch/sketch_columns.h"
#include "core/span.h"

namespace tfcompress {

class MinMaxSketch {
 public:
  // Content of an empty cell; above every value.
  static constexpr uint16_t kEmpty = 0xFFFF;

  // rows, columns >= 1. Sketches with the same shape and seed place keys in the same cells.
  MinMaxSketch(uint32_t rows, uint32_t columns, uint64_t seed)
      : columns_(columns), cells_(static_cast<size_t>(rows) * columns, kEmpty), mixed_seeds_(rows) {
    for (uint32_t row = 0; row < rows; ++row) mixed_seeds_[row] = MixedRowSeed(row, seed);
  }

  // value < kEmpty.
  void Insert(uint32_t key, uint16_t value) {
    for (uint32_t row = 0; row < num_rows(); ++row) InsertIntoRow(row, key, value);
  }
  // Inserts into one row; Insert does this for every row. Threads may fill different rows.
  void InsertIntoRow(uint32_t row, uint32_t key, uint16_t value) {
    uint16_t& cell =
        cells_[size_t{row} * columns_ + SketchColumn(key, mixed_seeds_[row], columns_)];
    cell = std::min(cell, value);
  }

  // Returns at most the least value inserted for `key`; unspecified if it was not inserted.
  uint16_t Query(uint32_t key) const {
    uint16_t value = 0;
    const uint16_t* row = cells_.data();
    for (uint64_t seed : mixed_seeds_) {
      value = std::max(value, row[SketchColumn(key, seed, columns_)]);
      row += columns_;
    }
    return value;
  }

  // Writes `value` to the empty cells; after this the sketch is for queries only.
  void FillEmpty(uint16_t value) { std::replace(cells_.begin(), cells_.end(), kEmpty, value); }

  uint32_t num_rows() const { return static_cast<uint32_t>(mixed_seeds_.size()); }
  // All cells, row after row.
  Span<uint16_t> cells() { return cells_; }
  Span<const uint16_t> cells() const { return cells_; }

 private:
  uint32_t columns_;
  std::vector<uint16_t> cells_;
  std::vector<uint64_t> mixed_seeds_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_
