#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/compressor.h"
#include "core/linear_codec.h"
#include "core/linear_compressor.h"
#include "core/registry.h"
#include "core/spec.h"
#include "cuda/device_variants.h"
#include "pybind/bindings.h"
#include "pybind/conversion.h"

namespace tfcompress {
namespace {

namespace py = pybind11;
using py::literals::operator""_a;

std::string CanonicalSpec(const std::string& spec) {
  if (IsLinearSpec(spec)) return ValueOrThrow(LinearCompressor::FromSpec(spec))->spec();
  return ValueOrThrow(Compressor::FromSpec(spec))->spec();
}

py::dict DescribeLinearSpec(const std::string& spec) {
  const auto compressor = ValueOrThrow(LinearCompressor::FromSpec(spec));
  const std::vector<std::string> parts = PartsOf(compressor->spec(), LinearCompressor::kMaxParts);
  const LowRankSettings low_rank = compressor->codec().low_rank();
  return py::dict("spec"_a = compressor->spec(), "linear"_a = true, "memory"_a = parts[0],
                  "num_slots"_a = compressor->memory().num_slots(), "sparsifier"_a = py::none(),
                  "index"_a = py::none(), "value"_a = py::none(), "joint"_a = py::none(),
                  "codec"_a = parts[1], "everything"_a = low_rank.rank > 0, "takes_rows"_a = false,
                  "exact"_a = compressor->codec().exact(), "rank"_a = low_rank.rank,
                  "warm_start"_a = low_rank.warm_start);
}

py::dict DescribeSpec(const std::string& spec) {
  if (IsLinearSpec(spec)) return DescribeLinearSpec(spec);
  const auto compressor = ValueOrThrow(Compressor::FromSpec(spec));
  const bool is_joint = compressor->support_kind() == SupportKind::kJoint;
  const std::vector<std::string> parts = PartsOf(compressor->spec(), Compressor::kMaxParts);
  const auto part_or_none = [&](bool present, size_t i) -> py::object {
    if (!present) return py::none();
    return py::str(parts[i]);
  };
  return py::dict("spec"_a = compressor->spec(), "linear"_a = false, "memory"_a = parts[0],
                  "num_slots"_a = compressor->memory().num_slots(), "sparsifier"_a = parts[1],
                  "index"_a = part_or_none(!is_joint, 2), "value"_a = part_or_none(!is_joint, 3),
                  "joint"_a = part_or_none(is_joint, 2),
                  "everything"_a = compressor->support_kind() == SupportKind::kEverything,
                  "takes_rows"_a = !is_joint || compressor->joint()->takes_rows());
}

// "yes", the settings that have a variant, or an empty string.
std::string DeviceVariant(const std::vector<std::string>& on_device, const std::string& name) {
  if (std::find(on_device.begin(), on_device.end(), name) == on_device.end()) return "";
  return name == "count_sketch" ? "top" : "yes";
}

const char* KindName(ParamKind kind) {
  switch (kind) {
    case ParamKind::kFloat:
      return "float";
    case ParamKind::kInt:
      return "int";
    case ParamKind::kChoice:
      return "choice";
  }
  return "unknown";
}

// Lists the rows of a registry; those in `on_device` have a variant for GPUs.
template <typename Interface>
py::list ListRegistry(const std::vector<std::string>& on_device) {
  py::list rows;
  for (const auto& row : Registry<Interface>()) {
    py::list parameters;
    for (const ParamSpec& spec : row.definition.params) {
      parameters.append(py::dict("name"_a = spec.name, "kind"_a = KindName(spec.kind),
                                 "default"_a = spec.default_value, "min"_a = spec.min,
                                 "max"_a = spec.max, "min_open"_a = spec.min_open,
                                 "max_open"_a = spec.max_open, "odd"_a = spec.odd,
                                 "choices"_a = spec.choices, "doc"_a = spec.doc));
    }
    rows.append(py::dict("id"_a = int{row.id}, "name"_a = row.name, "doc"_a = row.definition.doc,
                         "parameters"_a = parameters, "error"_a = row.definition.error,
                         "cost"_a = row.definition.cost,
                         "device"_a = DeviceVariant(on_device, row.name)));
  }
  return rows;
}

py::list ListRegistryOf(const std::string& kind) {
  if (kind == "memories") return ListRegistry<Memory>(device::DeviceMemories());
  if (kind == "sparsifiers") return ListRegistry<Sparsifier>(device::DeviceSparsifiers());
  if (kind == "index_codecs") return ListRegistry<IndexCodec>(device::DeviceIndexCodecs());
  if (kind == "value_codecs") return ListRegistry<ValueCodec>(device::DeviceValueCodecs());
  if (kind == "joint_codecs") return ListRegistry<SparseCodec>(device::DeviceJointCodecs());
  if (kind == "linear_codecs") return ListRegistry<LinearCodec>(device::DeviceLinearCodecs());
  throw py::value_error(
      "unknown registry '" + kind +
      "'; known: memories, sparsifiers, index_codecs, value_codecs, joint_codecs, linear_codecs");
}

}  // namespace

void DefineSpecBindings(py::module_& module) {
  module.def("canonical_spec", &CanonicalSpec, "spec"_a,
             "Returns the spec with every parameter written out and memory `none` left out: equal "
             "compressors have equal canonical specs.");
  module.def(
      "describe_spec", &DescribeSpec, "spec"_a,
      "A dict of the canonical `spec`; whether it is `linear`; its `memory`; `num_slots`, the "
      "float32 vectors that the memory keeps; the parts `sparsifier`, `index`, `value` and "
      "`joint`, None where the spec has no such part; `everything`, whether all elements are "
      "sent; and `takes_rows`, whether its codecs take sparse rows. Of a linear spec also its part "
      "`codec`, whether what it recovers is `exact`, its `rank`, 0 unless it makes low-rank "
      "factors "
      "of matrices, and whether these have a `warm_start`.");
  module.def(
      "registry", &ListRegistryOf, "kind"_a,
      "Lists the parts that a spec can name, one dict {id, name, doc, parameters, error, cost, "
      "device} each. `kind` is memories, sparsifiers, index_codecs, value_codecs, joint_codecs or "
      "linear_codecs. A parameter is a dict {name, kind, default, min, max, min_open, max_open, "
      "odd, choices, doc}; its default is text as in a spec. `device` is \"yes\" if the part has a "
      "variant for GPUs, the settings that have one, or empty.");
}

}  // namespace tfcompress
