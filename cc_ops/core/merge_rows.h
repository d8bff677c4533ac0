// Sums what belongs to the same row: the slices of a gradient, or the rows of several ranks.
#ifndef TFCOMPRESS_CORE_MERGE_ROWS_H_
#define TFCOMPRESS_CORE_MERGE_ROWS_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/rows.h"
#include "core/span.h"

namespace tfcompress {

// The rows of `rows` with these ids, ascending; zeros for those that are not among them.
SparseRows GatherRows(const SparseRows& rows, std::vector<uint32_t> ids, uint64_t width,
                      Executor* executor);

// Adds `scale` times each slice to its row of `sum`: in float32, in the order in which the slices
// stand; a row that `sum` lacks begins at +0. Slice i belongs to row ids[i] < num_rows; there are
// at most kMaxElements. Adding some slices, and then the others, gives the bits of adding all. The
// same bits for every executor; O(values of both) time and memory.
void AddRows(Span<const uint32_t> ids, Span<const float> values, uint64_t width, uint64_t num_rows,
             float scale, Executor* executor, SparseRows* sum);

// The rows that hold elements of a vector of num_rows * width, with zeros for their others.
SparseRows ToRows(const SparseTensor& elements, uint32_t width);

// Calls body(begin, end) for blocks of rows that hold about kBlockElements elements each.
template <typename Body>
void ForEachRowBlock(Executor* executor, size_t num_rows, uint64_t width, const Body& body) {
  const int64_t rows_per_block =
      width < kBlockElements ? kBlockElements / static_cast<int64_t>(width) : 1;
  ForEachBlock(
      executor, static_cast<int64_t>(num_rows),
      [&](int64_t, int64_t begin, int64_t end) { body(begin, end); }, rows_per_block);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_MERGE_ROWS_H_
