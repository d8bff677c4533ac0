#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "core/codec.h"
#include "core/finite.h"
#include "core/float_mode.h"
#include "core/spec.h"
#include "pybind/bindings.h"
#include "pybind/conversion.h"

namespace tfcompress {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

uint32_t CheckedSize(const char* name, uint64_t size, uint64_t limit) {
  if (size <= limit) return static_cast<uint32_t>(size);
  throw py::value_error(std::string(name) + " = " + std::to_string(size) + " is above " +
                        std::to_string(limit));
}

Span<const float> FiniteValues(const char* name, const py::array& array) {
  const Span<const float> values = ToSpan<float>(name, array);
  if (!AllFinite(values, SerialExecutor())) {
    throw py::value_error(std::string(name) + " must be finite");
  }
  return values;
}

// The support of the given indices, or of all n elements if there are none. Borrows the array.
Support ToSupport(const std::optional<py::array>& indices, uint64_t n) {
  const uint32_t size = CheckedSize("n", n, kMaxElements);
  if (!indices.has_value()) return Support::Everything(size);
  const Span<const uint32_t> list = ToSpan<uint32_t>("indices", *indices);
  ThrowIfError(CheckIndices(list, size));
  return Support(size, list);
}

template <typename Interface>
const Interface& DecoderByName(const char* kind, const std::string& name) {
  return *DecoderById<Interface>(ValueOrThrow(FindRow<Interface>(kind, name))->id);
}

py::array_t<uint32_t> Select(const std::string& part, const py::array& dense, uint64_t seed) {
  const auto sparsifier = ValueOrThrow(ParsePart<Sparsifier>("sparsifier", part));
  const Span<const float> values = FiniteValues("dense", dense);
  CheckedSize("n", values.size(), kMaxElements);
  std::vector<uint32_t> indices;
  ThrowIfError(WithoutGil([&] { return sparsifier.object->Select(values, {seed}, &indices); }));
  return ToArray(indices);
}

// The grid of a tensor with rows of `width` elements; none for 0.
Grid ToGrid(uint64_t width) { return {CheckedSize("width", width, kMaxElements), 0}; }

py::tuple EncodeIndices(const std::string& part, const py::array& indices, uint64_t n,
                        uint64_t seed, uint64_t width) {
  const auto codec = ValueOrThrow(ParsePart<IndexCodec>("index codec", part));
  const Support support = ToSupport(indices, n);
  const CodecContext context{seed, SerialExecutor(), ToGrid(width)};
  Bytes section;
  const DecodedIndices decoded = ValueOrThrow(WithoutGil(
      [&] { return codec.object->Encode(support.indices(), support.n(), context, &section); }));
  const Span<const uint32_t> sent = decoded.support(support).indices();
  return py::make_tuple(ToBytes(section), ToArray(std::vector<uint32_t>(sent.begin(), sent.end())));
}

py::array_t<uint32_t> DecodeIndices(const std::string& name, const py::object& section, uint64_t n,
                                    uint64_t k, uint64_t seed) {
  const IndexCodec& codec = DecoderByName<IndexCodec>("index codec", name);
  const uint32_t universe = CheckedSize("n", n, kMaxElements);
  const uint32_t count = CheckedSize("k", k, n);
  const BytesView view(section);
  std::vector<uint32_t> indices;
  ThrowIfError(
      WithoutGil([&] { return codec.Decode(view.span(), universe, count, {seed}, &indices); }));
  return ToArray(indices);
}

py::bytes EncodeValues(const std::string& part, const py::array& values,
                       const std::optional<py::array>& indices, uint64_t n, uint64_t seed,
                       uint64_t width) {
  const auto codec = ValueOrThrow(ParsePart<ValueCodec>("value codec", part));
  const Support support = ToSupport(indices, n);
  const Span<const float> finite = FiniteValues("values", values);
  if (finite.size() != support.size()) {
    throw py::value_error(std::to_string(finite.size()) + " values for a support of " +
                          std::to_string(support.size()));
  }
  const CodecContext context{seed, SerialExecutor(), ToGrid(width)};
  Bytes section;
  ThrowIfError(WithoutGil([&] {
    const FloatModeScope mode;
    return codec.object->Encode(finite, support, context, &section);
  }));
  return ToBytes(section);
}

py::array_t<float> DecodeValues(const std::string& name, const py::object& section,
                                const std::optional<py::array>& indices, uint64_t n,
                                uint64_t seed) {
  const ValueCodec& codec = DecoderByName<ValueCodec>("value codec", name);
  const Support support = ToSupport(indices, n);
  const BytesView view(section);
  std::vector<float> values(support.size());
  ThrowIfError(WithoutGil([&] {
    const FloatModeScope mode;
    return codec.Decode(view.span(), support, {seed}, Span<float>(values));
  }));
  return ToArray(values);
}

}  // namespace

void DefineCodecBindings(py::module_& module) {
  module.def(
      "select", &Select, "part"_a, "dense"_a, "seed"_a = 0,
      "Selects elements of a finite float32 vector with a sparsifier such as 'topk:ratio=0.01', "
      "and returns their indices, ascending uint32.");
  module.def("encode_indices", &EncodeIndices, "part"_a, "indices"_a, "n"_a, "seed"_a = 0,
             "width"_a = 0,
             "Codes strictly increasing uint32 indices below n, of a tensor with rows of `width` "
             "elements (0 for a vector); returns (section, the indices that "
             "decode_indices yields, which differ from the given ones for a lossy codec).");
  module.def("decode_indices", &DecodeIndices, "name"_a, "section"_a, "n"_a, "k"_a, "seed"_a = 0,
             "Decodes the k indices below n in a section of the named codec.");
  module.def(
      "encode_values", &EncodeValues, "part"_a, "values"_a, "indices"_a, "n"_a, "seed"_a = 0,
      "width"_a = 0,
      "Codes finite float32 values, in the order of their indices (None for all n) in a tensor "
      "with rows of `width` elements (0 for a vector), and returns the section.");
  module.def(
      "decode_values", &DecodeValues, "name"_a, "section"_a, "indices"_a, "n"_a, "seed"_a = 0,
      "Decodes the float32 values of these indices (None for all n) in a section of the named "
      "codec.");
}

}  // namespace tfcompress
