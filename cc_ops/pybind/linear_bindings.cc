#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/float_mode.h"
#include "core/linear/low_rank.h"
#include "core/linear/recovery.h"
#include "core/linear_compressor.h"
#include "core/sketch/count_sketch.h"
#include "pybind/bindings.h"
#include "pybind/conversion.h"

namespace tfcompress {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

// Throws ValueError unless n is in range; returns n.
int64_t CheckedElements(int64_t n) {
  if (n >= 0 && n <= static_cast<int64_t>(kMaxElements)) return n;
  throw py::value_error("n = " + std::to_string(n) + " is outside [0, " +
                        std::to_string(kMaxElements) + "]");
}

py::array_t<float> LinearEncode(const py::array& dense, const std::string& spec, uint64_t seed,
                                int num_threads) {
  const auto compressor = ValueOrThrow(LinearCompressor::FromSpec(spec));
  const Span<const float> x = ToSpan<float>("dense", dense);
  const int64_t n = CheckedElements(static_cast<int64_t>(x.size()));
  py::array_t<float> payload(compressor->codec().PayloadSize(n));
  const Span<float> floats(payload.mutable_data(), static_cast<size_t>(payload.size()));
  ThreadExecutor executor = MakeExecutor(num_threads);
  ThrowIfError(
      WithoutGil([&] { return compressor->codec().Encode(x, {seed, &executor}, floats); }));
  return payload;
}

py::tuple LinearRecover(const py::array& summed, int64_t n, const std::string& spec, uint64_t seed,
                        int num_threads) {
  const auto compressor = ValueOrThrow(LinearCompressor::FromSpec(spec));
  const Span<const float> payload = ToSpan<float>("summed", summed);
  ThreadExecutor executor = MakeExecutor(num_threads);
  std::vector<uint32_t> indices;
  std::vector<float> values;
  ThrowIfError(WithoutGil([&] {
    return compressor->codec().Recover(payload, n, {seed, &executor}, &indices, &values);
  }));
  return py::make_tuple(ToArray(indices), ToArray(values));
}

py::dict LinearSizes(const std::string& spec, int64_t n) {
  const auto compressor = ValueOrThrow(LinearCompressor::FromSpec(spec));
  const LinearCodec& codec = compressor->codec();
  CheckedElements(n);
  return py::dict("payload"_a = codec.PayloadSize(n), "candidates"_a = codec.NumCandidates(n),
                  "kept"_a = codec.NumKept(n));
}

// A borrowed matrix, and the sizes of its factors.
struct FactoredMatrix {
  LowRank low_rank;
  const float* elements;
};

FactoredMatrix ToMatrix(const py::array& matrix, int rank) {
  const bool contiguous = (matrix.flags() & py::array::c_style) != 0;
  if (matrix.ndim() != 2 || !contiguous || !matrix.dtype().equal(py::dtype::of<float>())) {
    throw py::value_error("matrix must be a C-contiguous 2-D array of float32");
  }
  if (rank < 1) throw py::value_error("rank must be at least 1, got " + std::to_string(rank));
  return {LowRank(rank, {{matrix.shape(0), matrix.shape(1)}}),
          static_cast<const float*>(matrix.data())};
}

py::array_t<float> LowRankLeft(const py::array& array, const py::array& last_right, int rank,
                               uint64_t seed, int num_threads) {
  const FactoredMatrix matrix = ToMatrix(array, rank);
  const Span<const float> right = ToSpan<float>("last_right", last_right);
  if (static_cast<int64_t>(right.size()) != matrix.low_rank.right_size()) {
    throw py::value_error("last_right has " + std::to_string(right.size()) + " floats, expected " +
                          std::to_string(matrix.low_rank.right_size()));
  }
  ThreadExecutor executor = MakeExecutor(num_threads);
  py::array_t<float> left(matrix.low_rank.left_size());
  const Span<float> floats(left.mutable_data(), static_cast<size_t>(left.size()));
  const float* factor = right.data();
  ThrowIfError(WithoutGil([&] {
    return matrix.low_rank.Left({&matrix.elements, 1}, {&factor, 1}, seed, &executor, floats);
  }));
  return left;
}

py::tuple LowRankRight(const py::array& array, const py::array& summed_left, int rank,
                       int num_threads) {
  const FactoredMatrix matrix = ToMatrix(array, rank);
  const Span<const float> summed = ToSpan<float>("summed_left", summed_left);
  ThreadExecutor executor = MakeExecutor(num_threads);
  std::vector<float> left(summed.begin(), summed.end());
  std::vector<float> right(static_cast<size_t>(matrix.low_rank.right_size()));
  ThrowIfError(WithoutGil([&] {
    return matrix.low_rank.Right({&matrix.elements, 1}, &executor, Span<float>(left),
                                 Span<float>(right));
  }));
  return py::make_tuple(ToArray(left), ToArray(right));
}

py::array_t<float> LowRankDecode(const py::array& array, const py::array& left,
                                 const py::array& right, int rank, int num_threads) {
  const FactoredMatrix matrix = ToMatrix(array, rank);
  ThreadExecutor executor = MakeExecutor(num_threads);
  py::array_t<float> decoded(std::vector<py::ssize_t>{array.shape(0), array.shape(1)});
  float* product = decoded.mutable_data();
  const Span<const float> left_factor = ToSpan<float>("left", left);
  const Span<const float> right_factor = ToSpan<float>("right", right);
  bool finite = true;
  ThrowIfError(WithoutGil([&] {
    return matrix.low_rank.Decode({&matrix.elements, 1}, left_factor, right_factor, 1.0f, &executor,
                                  {&product, 1}, {}, &finite);
  }));
  return decoded;
}

CountSketch MakeSketch(int64_t rows, int64_t columns, uint64_t seed) {
  if (rows < 1 || rows > CountSketch::kMaxRows || rows % 2 == 0 || columns < 1 ||
      columns > int64_t{CountSketch::kMaxColumns}) {
    throw py::value_error("a count sketch has 1 to " + std::to_string(CountSketch::kMaxRows) +
                          " rows, an odd number, and 1 to " +
                          std::to_string(CountSketch::kMaxColumns) + " columns, got " +
                          std::to_string(rows) + " and " + std::to_string(columns));
  }
  return CountSketch(static_cast<int>(rows), static_cast<uint32_t>(columns), seed);
}

// A borrowed float32 array [rows, columns], with a CountSketch of this shape.
struct SketchTable {
  CountSketch sketch;
  Span<const float> cells;
};

SketchTable ToTable(const py::array& table, uint64_t seed) {
  const bool contiguous = (table.flags() & py::array::c_style) != 0;
  if (table.ndim() != 2 || !contiguous || !table.dtype().equal(py::dtype::of<float>())) {
    throw py::value_error("table must be a C-contiguous 2-D array of float32");
  }
  return {MakeSketch(table.shape(0), table.shape(1), seed),
          {static_cast<const float*>(table.data()), static_cast<size_t>(table.size())}};
}

py::array_t<float> CountSketchInsert(const py::array& x, int64_t rows, int64_t columns,
                                     uint64_t seed, int num_threads) {
  const FloatModeScope mode;
  const CountSketch sketch = MakeSketch(rows, columns, seed);
  const Span<const float> elements = ToSpan<float>("x", x);
  py::array_t<float> table(std::vector<py::ssize_t>{rows, columns});
  const Span<float> cells(table.mutable_data(), static_cast<size_t>(table.size()));
  ThreadExecutor executor = MakeExecutor(num_threads);
  WithoutGil([&] { sketch.Insert(elements, &executor, cells); });
  return table;
}

py::array_t<float> CountSketchEstimate(const py::array& array, int64_t n, uint64_t seed) {
  const FloatModeScope mode;
  const SketchTable table = ToTable(array, seed);
  py::array_t<float> estimates(CheckedElements(n));
  table.sketch.Estimate(table.cells, SerialExecutor(),
                        {estimates.mutable_data(), static_cast<size_t>(estimates.size())});
  return estimates;
}

double CountSketchSquaredNorm(const py::array& array) {
  const FloatModeScope mode;
  const SketchTable table = ToTable(array, 0);
  return table.sketch.SquaredNorm(table.cells, SerialExecutor());
}

// Runs TopCandidates or HeavyMix as `recover(table, indices, values)`; returns both arrays.
template <typename Recover>
py::tuple Recovered(const py::array& array, int64_t n, int64_t count, uint64_t seed,
                    const Recover& recover) {
  const FloatModeScope mode;
  const SketchTable table = ToTable(array, seed);
  CheckedElements(n);
  if (count < 1)
    throw py::value_error("at least one element is expected, got " + std::to_string(count));
  std::vector<uint32_t> indices;
  std::vector<float> values;
  recover(table, &indices, &values);
  return py::make_tuple(ToArray(indices), ToArray(values));
}

py::tuple CountSketchTop(const py::array& array, int64_t n, int64_t count, uint64_t seed) {
  return Recovered(
      array, n, count, seed, [&](const SketchTable& table, auto* indices, auto* values) {
        TopCandidates(table.sketch, table.cells, n, count, SerialExecutor(), indices, values);
      });
}

py::tuple CountSketchHeavyMix(const py::array& array, int64_t n, int64_t k, uint64_t seed) {
  return Recovered(array, n, k, seed, [&](const SketchTable& table, auto* indices, auto* values) {
    HeavyMix(table.sketch, table.cells, n, k, {seed}, indices, values);
  });
}

}  // namespace

void DefineLinearBindings(py::module_& module) {
  module.def("linear_encode", &LinearEncode, "dense"_a, "spec"_a, "seed"_a = 0, "num_threads"_a = 0,
             "Encodes a float32 vector under a linear spec such as "
             "'count_sketch:rows=5,columns=1000', and returns the float32 payload; all NaN if the "
             "vector is not finite. The memory of the spec is not used. num_threads 0 means one "
             "per core.");
  module.def(
      "linear_recover", &LinearRecover, "summed"_a, "n"_a, "spec"_a, "seed"_a = 0,
      "num_threads"_a = 0,
      "Recovers elements of the sum of vectors of n elements from the sum of their payloads: "
      "(ascending uint32 indices, float32 values). The values are exact, or estimates, as "
      "describe_spec says.");
  module.def("linear_sizes", &LinearSizes, "spec"_a, "n"_a,
             "Returns a dict of numbers for n elements: `payload`, its floats; `candidates`, the "
             "elements that linear_recover yields; `kept`, those kept after the second round.");
  module.def("low_rank_left", &LowRankLeft, "matrix"_a, "last_right"_a, "rank"_a, "seed"_a = 0,
             "num_threads"_a = 0,
             "Multiplies a float32 matrix by the right factor of the last step, rank * columns "
             "floats, zeros at first: the left factor, rank * rows floats to sum over ranks.");
  module.def("low_rank_right", &LowRankRight, "matrix"_a, "summed_left"_a, "rank"_a,
             "num_threads"_a = 0,
             "Makes a summed left factor orthonormal, and multiplies the transposed matrix by it: "
             "(left factor, right factor), the second one to average over ranks.");
  module.def("low_rank_decode", &LowRankDecode, "matrix"_a, "left"_a, "right"_a, "rank"_a,
             "num_threads"_a = 0, "Multiplies out the factors: float32 of the shape of `matrix`.");
  module.def("count_sketch_insert", &CountSketchInsert, "x"_a, "rows"_a, "columns"_a, "seed"_a = 0,
             "num_threads"_a = 0,
             "Computes the sketch of a finite float32 vector: float32 [rows, columns].");
  module.def("count_sketch_estimate", &CountSketchEstimate, "table"_a, "n"_a, "seed"_a = 0,
             "Estimates the n elements of the vector with this sketch, float32.");
  module.def("count_sketch_squared_norm", &CountSketchSquaredNorm, "table"_a,
             "Estimates the sum of squares of the vector with this sketch.");
  module.def("count_sketch_top", &CountSketchTop, "table"_a, "n"_a, "count"_a, "seed"_a = 0,
             "Finds the min(count, n) largest estimates: (ascending uint32 indices, float32 "
             "estimates).");
  module.def("count_sketch_heavymix", &CountSketchHeavyMix, "table"_a, "n"_a, "k"_a, "seed"_a = 0,
             "Selects min(k, n) elements by HEAVYMIX: (ascending uint32 indices, float32 "
             "estimates).");
}

}  // namespace tfcompress
