#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "core/rows.h"
#include "core/spec.h"
#include "pybind/bindings.h"
#include "pybind/conversion.h"

namespace tfcompress {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

RowsView ToRowsView(const py::array& values, DType dtype, const py::array& indices,
                    uint64_t num_rows, uint64_t width) {
  const bool is_wide = indices.dtype().equal(py::dtype::of<int64_t>());
  CheckVector("values", values, ToNumpyDType(dtype));
  CheckVector("indices", indices, is_wide ? py::dtype::of<int64_t>() : py::dtype::of<int32_t>());
  const auto num_slices = static_cast<uint64_t>(indices.size());
  if (static_cast<uint64_t>(values.size()) != num_slices * width) {
    throw py::value_error(std::to_string(values.size()) + " values for " +
                          std::to_string(num_slices) + " rows of " + std::to_string(width));
  }
  return {values.data(), dtype, indices.data(), is_wide ? IdType::kInt64 : IdType::kInt32,
          num_slices,    width, num_rows};
}

py::bytes EncodeRows(const py::array& values, const std::string& dtype_name,
                     const py::array& indices, uint64_t num_rows, uint64_t width,
                     const std::string& spec, const std::string& row_sparsifier,
                     const std::optional<py::array>& residual, uint64_t seed, int num_threads) {
  const RowsView slices = ToRowsView(values, ToDType(dtype_name), indices, num_rows, width);
  float* kept = nullptr;
  if (residual.has_value()) {
    if (ToSpan<float>("residual", *residual).size() != num_rows * width) {
      throw py::value_error("residual has " + std::to_string(residual->size()) +
                            " elements, the table has " + std::to_string(num_rows * width));
    }
    py::array writable = *residual;
    kept = static_cast<float*>(writable.mutable_data());  // Throws on read-only.
  }
  const auto compressor = ValueOrThrow(Compressor::FromSpec(spec));
  const auto sparsifier = ValueOrThrow(ParsePart<Sparsifier>("row sparsifier", row_sparsifier));
  ThreadExecutor executor = MakeExecutor(num_threads);
  Bytes frame;
  int64_t num_bytes = 0;
  RowCounts counts{Span<int64_t>(&num_bytes, 1)};
  ThrowIfError(WithoutGil([&] {
    return EncodeRowsFrames(*compressor, *sparsifier.object, slices, kept, {seed, &executor},
                            &frame, &counts);
  }));
  return ToBytes(frame);
}

py::tuple DecodeRows(const py::object& packets, int64_t num_ranks, float scale, uint64_t num_rows,
                     uint64_t width, const std::string& dtype_name, int64_t position,
                     int64_t num_frames, int num_threads) {
  const BytesView view(packets);
  const Table table = {num_rows, width, ToDType(dtype_name)};
  ThreadExecutor executor = MakeExecutor(num_threads);
  SparseRows sum;
  DecodeStats stats;
  ThrowIfError(WithoutGil([&] {
    return DecodeRowsSum({view.span(), num_ranks, num_frames}, position, table, scale, &executor,
                         &sum, &stats);
  }));
  py::array values(ToNumpyDType(table.dtype), static_cast<py::ssize_t>(sum.values.size()));
  NarrowFromFloat(sum.values, table.dtype, &executor, values.mutable_data());
  return py::make_tuple(ToArray(std::vector<int64_t>(sum.ids.begin(), sum.ids.end())), values,
                        stats.num_bytes);
}

}  // namespace

void DefineRowsBindings(py::module_& module) {
  module.def(
      "encode_rows", &EncodeRows, "values"_a, "dtype_name"_a, "indices"_a, "num_rows"_a, "width"_a,
      "spec"_a, "row_sparsifier"_a = "dense", "residual"_a = py::none(), "seed"_a = 0,
      "num_threads"_a = 0,
      "Encodes the gradient of some rows of a table of num_rows x width elements, and returns one "
      "frame as bytes. `indices`, int32 or int64, name the row of each slice of `width` values; "
      "`values` are 1-D, float32 or uint16 bit patterns. `residual`, writable float32 of "
      "num_rows * width elements, is updated in place.");
  module.def(
      "decode_rows", &DecodeRows, "packets"_a, "num_ranks"_a, "scale"_a, "num_rows"_a, "width"_a,
      "dtype_name"_a, "position"_a = 0, "num_frames"_a = 1, "num_threads"_a = 0,
      "Decodes frame `position` of the packets of all ranks, laid end to end with `num_frames` "
      "frames each, and returns (the rows that any rank sent, ascending int64; scale * their sums "
      "over ranks, row after row; bytes of the frames).");
}

}  // namespace tfcompress
