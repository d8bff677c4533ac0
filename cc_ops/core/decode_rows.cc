#include <limits>
#include <utility>

#include "core/float_mode.h"
#include "core/frame_codecs.h"
#include "core/merge_rows.h"
#include "core/pipeline.h"
#include "core/stopwatch.h"

namespace tfcompress {
namespace {

Status CheckTable(const FrameHeader& header, const Table& table) {
  if (header.support == SupportKind::kRows) {
    if (header.n != table.num_rows) {
      return DataLoss("frame of a table of ", header.n, " rows, expected ", table.num_rows);
    }
  } else if (header.support != SupportKind::kJoint) {
    return DataLoss("a frame of a dense tensor, expected one of rows");
  } else if (header.n != table.num_rows * table.width) {
    return DataLoss("frame of ", header.n, " elements, expected ", table.num_rows, " rows of ",
                    table.width);
  }
  return CheckDType(header, table.dtype);
}

Status DecodeProduct(const Frame& frame, const Table& table, const CodecContext& context,
                     SparseRows* out) {
  const FrameHeader& header = frame.header;
  TFC_ASSIGN_OR_RETURN(const FrameCodecs codecs, FindCodecs(header));
  ByteReader reader(frame.sections.indices);
  uint32_t width = 0;
  ByteSpan ids;
  TFC_RETURN_IF_ERROR(reader.Read("row width", &width));
  TFC_RETURN_IF_ERROR(reader.ReadSpan("row ids", reader.remaining(), &ids));
  if (width != table.width) {
    return DataLoss("rows of ", width, " elements, expected ", table.width);
  }
  const uint64_t num_values = uint64_t{header.k} * width;
  if (num_values > kMaxElements) {
    return DataLoss(header.k, " rows of ", width, " elements are above the limit of ", kMaxElements,
                    " elements");
  }
  TFC_RETURN_IF_ERROR(CheckSections(codecs, {ids, frame.sections.values}, header.n, header.k,
                                    static_cast<uint32_t>(num_values)));
  TFC_RETURN_IF_ERROR(codecs.index->Decode(ids, header.n, header.k, context, &out->ids)
                          .WithContext("index section"));
  out->values.resize(num_values);
  return codecs.value
      ->Decode(frame.sections.values, Support::Everything(static_cast<uint32_t>(num_values)),
               context, Span<float>(out->values))
      .WithContext("value section");
}

// Takes the rows of `more`, which may be some of `rows`, too.
void Append(SparseRows* more, SparseRows* rows) {
  if (rows->ids.empty()) {
    std::swap(*more, *rows);
    return;
  }
  rows->ids.insert(rows->ids.end(), more->ids.begin(), more->ids.end());
  rows->values.insert(rows->values.end(), more->values.begin(), more->values.end());
}

// Where no row was sent, row 0 carries the news.
void FillWithNaN(const Table& table, SparseRows* rows) {
  if (rows->ids.empty() && table.num_rows > 0) rows->ids.push_back(0);
  rows->values.assign(rows->ids.size() * table.width, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

uint32_t RowWidth(const Frame& frame) {
  uint32_t width = 0;
  if (frame.header.support != SupportKind::kRows ||
      !ByteReader(frame.sections.indices).Read("row width", &width).ok()) {
    return 0;
  }
  return width;
}

Status DecodeRowsFrame(const Frame& frame, const Table& table, Executor* executor,
                       SparseRows* out) {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckTable(frame.header, table));
  if (frame.header.support == SupportKind::kJoint) {
    SparseTensor elements;
    TFC_RETURN_IF_ERROR(DecodeFrame(frame, executor, &elements));
    *out = ToRows(elements, static_cast<uint32_t>(table.width));
    return OkStatus();
  }
  TFC_RETURN_IF_ERROR(VerifyChecksum(frame));
  out->ids.clear();
  out->values.clear();
  if (frame.header.k == 0) return OkStatus();
  return DecodeProduct(frame, table, {frame.header.seed, executor}, out);
}

Status DecodeRowsSum(const PacketsView& packets, int64_t position, const Table& table, float scale,
                     Executor* executor, SparseRows* out, DecodeStats* stats) {
  const FloatModeScope mode;
  const Stopwatch stopwatch;
  if (table.width < 1 || table.width > kMaxElements || table.num_rows > kMaxElements) {
    return InvalidArgument("a table of ", table.num_rows, " rows of ", table.width,
                           " elements; expected 1 to ", kMaxElements, " elements and at most ",
                           kMaxElements, " rows");
  }
  TFC_ASSIGN_OR_RETURN(
      const std::vector<PacketFrame> frames,
      ReadPackets(packets, Span<const int64_t>(&position, 1),
                  [&](size_t, const FrameHeader& header) { return CheckTable(header, table); }));
  out->ids.clear();
  out->values.clear();
  // In rank order, which is that of the summation. Rows wait until they are as many as the sum's:
  // the time is that of the frames together, however many there are.
  SparseRows of_rank, waiting;
  bool finite = true;
  int64_t num_bytes = 0;
  for (const PacketFrame& frame : frames) {
    TFC_RETURN_IF_ERROR(
        DecodeRowsFrame(frame, table, executor, &of_rank).WithContext(frame.name()));
    Append(&of_rank, &waiting);
    const bool is_last = &frame == &frames.back();
    if (is_last || waiting.values.size() >= out->values.size()) {
      AddRows(waiting.ids, waiting.values, table.width, table.num_rows, scale, executor, out);
      waiting = {};
    }
    finite &= !frame.header.nonfinite;
    num_bytes += static_cast<int64_t>(frame.bytes.size());
  }
  if (!finite) FillWithNaN(table, out);
  if (stats != nullptr) *stats = {num_bytes, stopwatch.nanoseconds(), finite};
  return OkStatus();
}

}  // namespace tfcompress
