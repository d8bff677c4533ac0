// Gradients that are sparse by rows (tf.IndexedSlices: embeddings, linear models), compressed as
// rows of their table and never as the table: everything here takes time and memory of the order of
// the rows, unless an index codec looks at the universe by its nature (bloom, bitmap).
// FORMAT.md, "Rows".
#ifndef TFCOMPRESS_CORE_ROWS_H_
#define TFCOMPRESS_CORE_ROWS_H_

#include <cstdint>
#include <vector>

#include "core/compressor.h"
#include "core/dtype.h"
#include "core/frame.h"
#include "core/packets.h"

namespace tfcompress {

enum class IdType { kInt32, kInt64 };

// A borrowed gradient of a table of num_rows x width elements: slice i, values [i * width, (i + 1)
// * width), belongs to row ids[i]. Rows may repeat, in any order: their slices are summed.
struct RowsView {
  const void* values;
  DType dtype;
  const void* ids;
  IdType id_type;
  uint64_t num_slices;
  uint64_t width;
  uint64_t num_rows;
};

// Some rows of a table; `values` is row-major.
struct SparseRows {
  std::vector<uint32_t> ids;  // Strictly increasing.
  std::vector<float> values;
};

// What EncodeRowsFrames counts.
struct RowCounts {
  Span<int64_t> num_bytes;  // Of each owner's frame: as many elements as owners, overwritten.
  int64_t num_sent = 0;     // Elements in the frames.
};

// Merges the slices of each row, chooses rows by `row_sparsifier`, which sees the Euclidean norms
// of the touched rows, encodes them with the compressor's codecs, and appends a frame for each
// owner, in their order: row r belongs to owner r % owners, and keeps its number. One owner has all
// rows. The sharded exchange of rows has a frame for each rank, which sums its rows and encodes the
// sums, for one owner: then the residual takes up what the second encoding leaves out, too. Rows of
// which every element would be filtered by the value codec (log) are not sent. The compressor's
// sparsifier and memory are not used. A spec that sends no index (dense|raw|X, randomk) codes its
// row ids by delta_binary; a joint codec codes the elements of the rows that are not zero, among
// num_rows * width <= kMaxElements.
//
// `residual`, unless it is null, is error feedback: num_rows * width floats, row-major, of which
// only rows that are touched or decoded are read and written. Touched rows are compensated by
// theirs; at the end, merged + residual before == decoded + residual after, row by row. (A lossy
// index codec adds rows: touched ones with their values, others with zeros.)
//
// A touched row with NaN or Inf makes all frames non-finite, and the residual is left alone; so it
// is on failure. InvalidArgument: no owner, an id outside [0, num_rows), a width of 0, sizes above
// the limits, a joint codec that codes a whole dense vector (threelc).
Status EncodeRowsFrames(const Compressor& compressor, const Sparsifier& row_sparsifier,
                        const RowsView& slices, float* residual, const CodecContext& context,
                        Bytes* frames, RowCounts* counts);

// What receivers know of a table's frames before they read one.
struct Table {
  uint64_t num_rows;
  uint64_t width;  // At least 1.
  DType dtype;
};

// The elements of a row off the wire; 0 for a frame of rows that has none. For inspection: a
// decoder is told the width.
uint32_t RowWidth(const Frame& frame);

// Fills `out` with what the frame of a table decodes to (NaN nowhere: a non-finite frame is the
// caller's case). Checks the checksum first. Fails with DataLoss for a frame of anything else.
Status DecodeRowsFrame(const Frame& frame, const Table& table, Executor* executor, SparseRows* out);

// Decodes frame `position` of every rank's packet and overwrites `out` with `scale` times the sum
// over ranks of every row that any rank sent. Each element is summed in rank order from +0, so
// every rank gets the same bits. Where the table was non-finite on any rank, those rows are NaN; if
// there are none, row 0 is. Fails with DataLoss, naming rank and position. `stats` may be null.
Status DecodeRowsSum(const PacketsView& packets, int64_t position, const Table& table, float scale,
                     Executor* executor, SparseRows* out, DecodeStats* stats);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ROWS_H_
