// MinMaxSketch (SketchML 3.3, SKCompress 4.2): remembers a small number for each of many keys in
// fewer cells than there are keys. Insertion keeps the least number in a cell, a query takes the
// greatest of the cells of its key: collisions make the answer smaller, never larger.
//
// With m equally likely values, lambda keys for each column and r rows, a query is exact with the
// probability mean_j [1 - (1 - e^(-lambda j / m))^r], where j = 0 ... m - 1 counts smaller values.
#ifndef TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_
#define TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/hash.h"
#include "core/span.h"

namespace tfcompress {

class MinMaxSketch {
 public:
  // What a cell holds that no key was inserted into; above every value.
  static constexpr uint16_t kEmpty = 0xFFFF;

  // rows, columns >= 1. Sketches with the same shape and seed place keys in the same cells.
  MinMaxSketch(uint32_t rows, uint32_t columns, uint64_t seed)
      : columns_(columns), cells_(static_cast<size_t>(rows) * columns, kEmpty), row_seeds_(rows) {
    for (uint32_t row = 0; row < rows; ++row) row_seeds_[row] = HashKey(row, seed);
  }

  // value < kEmpty.
  void Insert(uint32_t key, uint16_t value) {
    uint16_t* row = cells_.data();
    for (uint64_t seed : row_seeds_) {
      uint16_t& cell = row[Column(key, seed)];
      cell = std::min(cell, value);
      row += columns_;
    }
  }

  // At most the least value inserted for `key`; anything for a key that was not inserted.
  uint16_t Query(uint32_t key) const {
    uint16_t value = 0;
    const uint16_t* row = cells_.data();
    for (uint64_t seed : row_seeds_) {
      value = std::max(value, row[Column(key, seed)]);
      row += columns_;
    }
    return value;
  }

  // All cells, row after row.
  Span<uint16_t> cells() { return cells_; }
  Span<const uint16_t> cells() const { return cells_; }

 private:
  uint32_t Column(uint32_t key, uint64_t seed) const {
    return FastRange32(static_cast<uint32_t>(HashKey(key, seed) >> 32), columns_);
  }

  uint32_t columns_;
  std::vector<uint16_t> cells_;
  std::vector<uint64_t> row_seeds_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_
