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

#include "core/simd.h"
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
    for (uint32_t row = 0; row < num_rows(); ++row) InsertIntoRow(row, {&key, 1}, &value);
  }
  // Inserts values[i] for keys[i] into one row. Threads may fill different rows.
  template <typename Value>
  void InsertIntoRow(uint32_t row, Span<const uint32_t> keys, const Value* values) {
    uint16_t* const cells = cells_.data() + size_t{row} * columns_;
    ForEachColumn(row, keys, [=](size_t i, uint32_t column) {
      cells[column] = std::min(cells[column], static_cast<uint16_t>(values[i]));
    });
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

  // values[i] = Query(keys[i]), row by row: a row of many keys fits where the sketch does not.
  void Query(Span<const uint32_t> keys, uint16_t* values) const {
    std::fill_n(values, keys.size(), uint16_t{0});
    for (uint32_t row = 0; row < num_rows(); ++row) {
      const uint16_t* const cells = cells_.data() + size_t{row} * columns_;
      ForEachColumn(row, keys, [=](size_t i, uint32_t column) {
        values[i] = std::max(values[i], cells[column]);
      });
    }
  }

  // Writes `value` to the empty cells; after this the sketch is for queries only.
  void FillEmpty(uint16_t value) { std::replace(cells_.begin(), cells_.end(), kEmpty, value); }

  uint32_t num_rows() const { return static_cast<uint32_t>(mixed_seeds_.size()); }
  // All cells, row after row.
  Span<uint16_t> cells() { return cells_; }
  Span<const uint16_t> cells() const { return cells_; }

 private:
  static constexpr size_t kChunk = 1024;

  // Calls use(i, column of keys[i]), a chunk at a time: the hashes of a chunk are computed at once.
  template <typename Use>
  void ForEachColumn(uint32_t row, Span<const uint32_t> keys, const Use& use) const {
    uint32_t columns[kChunk];
    for (size_t begin = 0; begin < keys.size(); begin += kChunk) {
      const size_t size = std::min(kChunk, keys.size() - begin);
      Vectorized([size, from = keys.data() + begin, seed = mixed_seeds_[row],
                  num_columns = columns_, to = columns + 0] {
        for (size_t i = 0; i < size; ++i) to[i] = SketchColumn(from[i], seed, num_columns);
      });
      for (size_t i = 0; i < size; ++i) use(begin + i, columns[i]);
    }
  }

  uint32_t columns_;
  std::vector<uint16_t> cells_;
  std::vector<uint64_t> mixed_seeds_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_MINMAX_SKETCH_H_
