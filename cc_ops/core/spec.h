// The parts of a spec string: name[:key=value,...]. The grammar of a whole spec is in compressor.h.
#ifndef TFCOMPRESS_CORE_SPEC_H_
#define TFCOMPRESS_CORE_SPEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "core/status.h"

namespace tfcompress {

// Splits a text at separators; the result has at least one piece.
std::vector<std::string> Split(const std::string& text, char separator);

// Splits a spec of at most `max_parts` parts, and prepends the memory `none` if the spec names no
// memory and has fewer parts.
std::vector<std::string> PartsOf(const std::string& spec, size_t max_parts);

// The text before the first ':'.
std::string NameOf(const std::string& part);

// The key=value pairs after the first ':', unchecked against any table.
Result<std::vector<std::pair<std::string, std::string>>> KeyValuesOf(const std::string& part);

// The front of a canonical spec: the memory and its separator, "" for the memory `none`.
std::string MemoryPrefix(const std::string& canonical_memory);

// The names of Interface's table, for messages: "raw, bitmap, ...".
template <typename Interface>
std::string KnownNames() {
  std::string names;
  for (const auto& row : Registry<Interface>()) names += (names.empty() ? "" : ", ") + row.name;
  return names;
}

// Returns the row with this name; fails with InvalidArgument, listing the known names, if there is
// none. `kind` names the table in messages.
template <typename Interface>
Result<const RegistryRow<Interface>*> FindRow(const char* kind, const std::string& name) {
  const auto* row = FindByName<Interface>(name);
  if (row != nullptr) return row;
  return InvalidArgument("unknown ", kind, " '", name, "'; known: ", KnownNames<Interface>());
}

// Returns the parameters given in `text`, a part with this row's name, or their defaults.
template <typename Interface>
Result<Params> ParamsOf(const RegistryRow<Interface>& row, const std::string& text) {
  TFC_ASSIGN_OR_RETURN(const auto given, KeyValuesOf(text));
  return Params::Parse(row.name, row.definition.params, given);
}

// A parsed part: the instance, its id, and its text with every parameter written out.
template <typename Interface>
struct Part {
  std::unique_ptr<const Interface> object;
  uint8_t id;
  std::string canonical;
};

template <typename Interface>
Result<Part<Interface>> ParsePart(const char* kind, const std::string& text) {
  const std::string name = NameOf(text);
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<Interface>(kind, name));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, text));
  const std::string values = params.ToString();
  return Part<Interface>{row->definition.make(params), row->id,
                         values.empty() ? name : name + ":" + values};
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPEC_H_
