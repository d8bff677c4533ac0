// One explicit table {id, name, definition} for each interface. Ids are part of the wire format and
// never reused: 1 to 127 are built in, 128 to 255 are for users' own builds, 0 means "none".
//
// Adding a codec: one source file that defines `Definition<...> MyCodec()`, and one row (with its
// declaration) in registry.cc. The spec parser, the Python listings, the contract tests, the
// fuzzer, the benchmark and the docs read the table.
#ifndef TFCOMPRESS_CORE_REGISTRY_H_
#define TFCOMPRESS_CORE_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/codec.h"
#include "core/status.h"

namespace tfcompress {

enum class ParamKind { kFloat, kInt, kChoice };

// One `key=value` of a spec part. Numbers must lie in [min, max]; with `min_open`, above min; with
// `max_open`, below max.
struct ParamSpec {
  std::string name;
  ParamKind kind;
  std::string default_value;
  std::string doc;
  double min = 0;
  double max = 0;
  bool min_open = false;
  std::vector<std::string> choices = {};
  bool max_open = false;
  bool odd = false;  // For kInt: refuse even numbers.
};

// A parameter that is one of `choices`.
inline ParamSpec ChoiceParam(const char* name, const char* default_value, const char* doc,
                             std::vector<std::string> choices) {
  return {name, ParamKind::kChoice, default_value, doc, 0, 0, false, std::move(choices)};
}

// The parameters of one part, checked against its ParamSpecs, in their order. Every declared
// parameter has a value.
class Params {
 public:
  // Fails with InvalidArgument for an unknown key, a repeated key, or a value that is out of range.
  // `part` names the part in messages.
  static Result<Params> Parse(const std::string& part, const std::vector<ParamSpec>& specs,
                              const std::vector<std::pair<std::string, std::string>>& given);

  double Float(const std::string& name) const { return Get(name).number; }
  int64_t Int(const std::string& name) const { return static_cast<int64_t>(Get(name).number); }
  // Index of the chosen value in ParamSpec::choices.
  int Choice(const std::string& name) const { return static_cast<int>(Get(name).number); }

  // "key=value,key=value", every parameter, numbers in their shortest exact form, integers in full;
  // "" without any.
  std::string ToString() const;

 private:
  struct Value {
    std::string name;
    std::string text;
    double number;
  };
  const Value& Get(const std::string& name) const;

  std::vector<Value> values_;
};

// The definition of a part, in its source file.
template <typename Interface>
struct Definition {
  std::string doc;  // One line, with the paper's section.
  std::vector<ParamSpec> params;
  std::unique_ptr<const Interface> (*make)(const Params& params);
  std::string error = "";  // The decoding error, with its bound; for docs/codecs.md.
  std::string cost = "";   // Bytes on the wire, as a formula of n and k; for docs/codecs.md.
};

// Definition::make of a class whose constructor takes the parameters, or nothing.
template <typename Class, typename Interface>
std::unique_ptr<const Interface> Make([[maybe_unused]] const Params& params) {
  if constexpr (std::is_constructible_v<Class, const Params&>) {
    return std::make_unique<Class>(params);
  } else {
    return std::make_unique<Class>();
  }
}

template <typename Interface>
struct RegistryRow {
  uint8_t id;
  std::string name;
  Definition<Interface> definition;
};

// The table of Interface: Memory, Sparsifier, IndexCodec, ValueCodec, SparseCodec (joint) or
// LinearCodec.
template <typename Interface>
const std::vector<RegistryRow<Interface>>& Registry();

// The row with this name, or nullptr.
template <typename Interface>
const RegistryRow<Interface>* FindByName(const std::string& name) {
  for (const auto& row : Registry<Interface>()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// The row with this id, or nullptr.
template <typename Interface>
const RegistryRow<Interface>* FindById(uint8_t id) {
  for (const auto& row : Registry<Interface>()) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

// Returns an instance that decodes sections with this id, or nullptr for an unknown id. It has
// default parameters: decoders read theirs from the section. Lives for the whole process.
template <typename Interface>
const Interface* DecoderById(uint8_t id);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_REGISTRY_H_
