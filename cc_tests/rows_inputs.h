// Gradients of some rows of a table, for the tests of rows.h.
#ifndef TFCOMPRESS_CC_TESTS_ROWS_INPUTS_H_
#define TFCOMPRESS_CC_TESTS_ROWS_INPUTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/hash.h"
#include "core/rows.h"
#include "core/spec.h"

namespace tfcompress {

struct RowsInput {
  uint64_t num_rows;
  uint64_t width;
  std::vector<int64_t> ids;
  std::vector<float> values;

  RowsView view() const {
    return {values.data(), DType::kFloat32, ids.data(), IdType::kInt64,
            ids.size(),    width,           num_rows};
  }
  Table table() const { return {num_rows, width, DType::kFloat32}; }
};

// As a batch gives them: in any order, some of them several times, the last row among them.
inline RowsInput RandomRows(uint64_t num_rows, uint64_t width, size_t num_slices, uint64_t seed) {
  Random random(seed);
  RowsInput input = {num_rows, width, {}, Gradient(num_slices * width, seed)};
  for (size_t i = 0; i < num_slices; ++i) {
    const bool repeats = i > 0 && random.Below(5) == 0;
    input.ids.push_back(repeats ? input.ids[random.Below(static_cast<uint32_t>(i))]
                                : random.Below(static_cast<uint32_t>(num_rows)));
  }
  if (num_slices > 0) input.ids.back() = static_cast<int64_t>(num_rows) - 1;
  return input;
}

inline Status EncodeRows(const std::string& spec, const std::string& row_sparsifier,
                         const RowsView& slices, float* residual, const CodecContext& context,
                         Bytes* frame) {
  TFC_ASSIGN_OR_RETURN(const auto compressor, Compressor::FromSpec(spec));
  TFC_ASSIGN_OR_RETURN(const auto part, ParsePart<Sparsifier>("row sparsifier", row_sparsifier));
  int64_t num_bytes = 0;
  RowCounts counts{Span<int64_t>(&num_bytes, 1)};
  return EncodeRowsFrames(*compressor, *part.object, slices, residual, context, frame, &counts);
}

inline Bytes MustEncodeRows(const std::string& spec, const RowsInput& input,
                            std::vector<float>* residual = nullptr,
                            const std::string& row_sparsifier = "dense",
                            const CodecContext& context = {1}) {
  Bytes frame;
  const Status status =
      EncodeRows(spec, row_sparsifier, input.view(),
                 residual == nullptr ? nullptr : residual->data(), context, &frame);
  EXPECT_TRUE(status.ok()) << spec << ": " << status.message();
  return frame;
}

// Of one rank that sends nothing else.
inline Status DecodeRows(const Bytes& frame, const Table& table, SparseRows* out,
                         Executor* executor = SerialExecutor()) {
  return DecodeRowsSum({frame, 1, 1}, 0, table, 1.0f, executor, out, nullptr);
}

inline SparseRows MustDecodeRows(const Bytes& frame, const Table& table) {
  SparseRows rows;
  const Status status = DecodeRows(frame, table, &rows);
  EXPECT_TRUE(status.ok()) << status.message();
  return rows;
}

// num_rows * width elements.
inline std::vector<float> ToTable(const SparseRows& rows, const Table& table) {
  std::vector<float> elements(table.num_rows * table.width);
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    for (uint64_t column = 0; column < table.width; ++column) {
      elements[rows.ids[i] * table.width + column] = rows.values[i * table.width + column];
    }
  }
  return elements;
}

// The sum of the slices of each row by a loop.
inline std::vector<float> MergedTable(const RowsInput& input) {
  std::vector<float> elements(input.num_rows * input.width);
  for (size_t i = 0; i < input.ids.size(); ++i) {
    for (uint64_t column = 0; column < input.width; ++column) {
      elements[input.ids[i] * input.width + column] += input.values[i * input.width + column];
    }
  }
  return elements;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_ROWS_INPUTS_H_
