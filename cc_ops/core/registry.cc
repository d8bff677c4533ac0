#include "core/registry.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/linear_codec.h"

namespace tfcompress {

Definition<Memory> NoneMemory();
Definition<Memory> ResidualMemory();
Definition<Memory> MomentumMemory();

Definition<Sparsifier> DenseSparsifier();
Definition<Sparsifier> NonzeroSparsifier();
Definition<Sparsifier> TopKSparsifier();
Definition<Sparsifier> ThresholdSparsifier();
Definition<Sparsifier> RandomKSparsifier();

Definition<IndexCodec> RawIndex();
Definition<IndexCodec> BitmapIndex();
Definition<IndexCodec> DeltaBinaryIndex();
Definition<IndexCodec> BloomIndex();
Definition<IndexCodec> RleIndex();
Definition<IndexCodec> HuffmanIndex();
Definition<IndexCodec> DeltaAdaptiveIndex();
Definition<IndexCodec> DeltaFlagIndex();
Definition<IndexCodec> RowcolIndex();

Definition<ValueCodec> RawValue();
Definition<ValueCodec> Fp16Value();
Definition<ValueCodec> Bf16Value();
Definition<ValueCodec> QuantileValue();
Definition<ValueCodec> DexpValue();
Definition<ValueCodec> DeflateValue();
Definition<ValueCodec> QsgdValue();
Definition<ValueCodec> LogValue();
Definition<ValueCodec> LogquantValue();
Definition<ValueCodec> UniformValue();
Definition<ValueCodec> TernaryValue();
Definition<ValueCodec> SignValue();
Definition<ValueCodec> PolyValue();
Definition<ValueCodec> MinmaxValue();
Definition<ValueCodec> BlockIntValue();
Definition<ValueCodec> EcsqValue();
Definition<ValueCodec> LosslessValue();

Definition<SparseCodec> SketchmlJoint();
Definition<SparseCodec> SkcompressJoint();
Definition<SparseCodec> ThreelcJoint();

Definition<LinearCodec> CountSketchLinear();
Definition<LinearCodec> SharedRandomKLinear();
Definition<LinearCodec> PowerSgdLinear();

template <>
const std::vector<RegistryRow<Memory>>& Registry<Memory>() {
  static const auto* rows = new std::vector<RegistryRow<Memory>>{
      {1, "none", NoneMemory()},
      {2, "residual", ResidualMemory()},
      {3, "momentum", MomentumMemory()},
  };
  return *rows;
}

template <>
const std::vector<RegistryRow<Sparsifier>>& Registry<Sparsifier>() {
  static const auto* rows = new std::vector<RegistryRow<Sparsifier>>{
      {1, "dense", DenseSparsifier()},     {2, "nonzero", NonzeroSparsifier()},
      {3, "topk", TopKSparsifier()},       {4, "threshold", ThresholdSparsifier()},
      {5, "randomk", RandomKSparsifier()},
  };
  return *rows;
}

template <>
const std::vector<RegistryRow<IndexCodec>>& Registry<IndexCodec>() {
  static const auto* rows = new std::vector<RegistryRow<IndexCodec>>{
      {1, "raw", RawIndex()},
      {2, "bitmap", BitmapIndex()},
      {3, "delta_binary", DeltaBinaryIndex()},
      {5, "rle", RleIndex()},
      {6, "huffman", HuffmanIndex()},
      {7, "delta_adaptive", DeltaAdaptiveIndex()},
      {8, "delta_flag", DeltaFlagIndex()},
      {11, "rowcol", RowcolIndex()},
      {10, "bloom", BloomIndex()},
  };
  return *rows;
}

template <>
const std::vector<RegistryRow<ValueCodec>>& Registry<ValueCodec>() {
  static const auto* rows = new std::vector<RegistryRow<ValueCodec>>{
      {1, "raw", RawValue()},
      {2, "fp16", Fp16Value()},
      {3, "bf16", Bf16Value()},
      {4, "quantile", QuantileValue()},
      {5, "dexp", DexpValue()},
      {6, "deflate", DeflateValue()},
      {7, "qsgd", QsgdValue()},
      {8, "log", LogValue()},
      {9, "logquant", LogquantValue()},
      {10, "uniform", UniformValue()},
      {11, "ternary", TernaryValue()},
      {12, "sign", SignValue()},
      {13, "poly", PolyValue()},
      {14, "minmax", MinmaxValue()},
      {15, "block_int", BlockIntValue()},
      {17, "ecsq", EcsqValue()},
      {18, "lossless", LosslessValue()},
  };
  return *rows;
}

template <>
const std::vector<RegistryRow<SparseCodec>>& Registry<SparseCodec>() {
  static const auto* rows = new std::vector<RegistryRow<SparseCodec>>{
      {1, "sketchml", SketchmlJoint()},
      {2, "skcompress", SkcompressJoint()},
      {3, "threelc", ThreelcJoint()},
  };
  return *rows;
}

template <>
const std::vector<RegistryRow<LinearCodec>>& Registry<LinearCodec>() {
  static const auto* rows = new std::vector<RegistryRow<LinearCodec>>{
      {1, "count_sketch", CountSketchLinear()},
      {2, "shared_randomk", SharedRandomKLinear()},
      {3, "powersgd", PowerSgdLinear()},
  };
  return *rows;
}

namespace {

// Instances with default parameters, one for each id of a table.
template <typename Interface>
std::array<const Interface*, 256> MakeDecoders() {
  std::array<const Interface*, 256> decoders{};
  for (const auto& row : Registry<Interface>()) {
    const auto params = Params::Parse(row.name, row.definition.params, {});
    if (params.ok()) decoders[row.id] = row.definition.make(params.value()).release();
  }
  return decoders;
}

std::string Join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

std::string ShortestText(double number) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, result.ptr);
}

std::string CanonicalText(const ParamSpec& spec, double number) {
  return spec.kind == ParamKind::kInt ? std::to_string(static_cast<int64_t>(number))
                                      : ShortestText(number);
}

bool IsOfKind(const ParamSpec& spec, double number) {
  if (spec.kind != ParamKind::kInt) return true;
  return number == std::trunc(number) && !(spec.odd && std::fmod(number, 2) == 0);
}

const char* KindText(const ParamSpec& spec) {
  if (spec.kind != ParamKind::kInt) return "a number";
  return spec.odd ? "an odd integer" : "an integer";
}

Result<double> ParseNumber(const std::string& where, const ParamSpec& spec,
                           const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  const bool in_range = is_number && (spec.min_open ? number > spec.min : number >= spec.min) &&
                        (spec.max_open ? number < spec.max : number <= spec.max);
  if (!in_range || !IsOfKind(spec, number)) {
    return InvalidArgument(where, " must be ", KindText(spec), " in ", spec.min_open ? "(" : "[",
                           ShortestText(spec.min), ", ", ShortestText(spec.max),
                           spec.max_open ? ")" : "]", ", got '", text, "'");
  }
  return number;
}

Result<double> ParseChoice(const std::string& where, const ParamSpec& spec,
                           const std::string& text) {
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    if (spec.choices[i] == text) return static_cast<double>(i);
  }
  return InvalidArgument(where, " must be one of: ", Join(spec.choices), "; got '", text, "'");
}

}  // namespace

template <typename Interface>
const Interface* DecoderById(uint8_t id) {
  static const std::array<const Interface*, 256> decoders = MakeDecoders<Interface>();
  return decoders[id];
}

template const IndexCodec* DecoderById<IndexCodec>(uint8_t);
template const ValueCodec* DecoderById<ValueCodec>(uint8_t);
template const SparseCodec* DecoderById<SparseCodec>(uint8_t);

Result<Params> Params::Parse(const std::string& part, const std::vector<ParamSpec>& specs,
                             const std::vector<std::pair<std::string, std::string>>& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    std::vector<std::string> known;
    bool found = false;
    for (const ParamSpec& spec : specs) {
      known.push_back(spec.name);
      found |= spec.name == given[i].first;
    }
    if (!found) {
      return InvalidArgument("unknown parameter '", given[i].first, "' of '", part, "'; ",
                             known.empty() ? "it has none" : "known: " + Join(known));
    }
    for (size_t j = 0; j < i; ++j) {
      if (given[j].first == given[i].first) {
        return InvalidArgument("parameter '", given[i].first, "' of '", part, "' is given twice");
      }
    }
  }
  Params params;
  for (const ParamSpec& spec : specs) {
    std::string text = spec.default_value;
    for (const auto& [key, value] : given) {
      if (key == spec.name) text = value;
    }
    const std::string where = "parameter '" + spec.name + "' of '" + part + "'";
    const bool is_choice = spec.kind == ParamKind::kChoice;
    TFC_ASSIGN_OR_RETURN(const double number, is_choice ? ParseChoice(where, spec, text)
                                                        : ParseNumber(where, spec, text));
    params.values_.push_back({spec.name, is_choice ? text : CanonicalText(spec, number), number});
  }
  return params;
}

std::string Params::ToString() const {
  std::string text;
  for (const Value& value : values_)
    text += (text.empty() ? "" : ",") + value.name + "=" + value.text;
  return text;
}

const Params::Value& Params::Get(const std::string& name) const {
  for (const Value& value : values_) {
    if (value.name == name) return value;
  }
  std::abort();  // A factory asked for a parameter that its own definition does not declare.
}

}  // namespace tfcompress
