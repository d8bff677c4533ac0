// The parts of a spec string: name[:key=value,...]. The grammar of a whole spec stands in
// compressor.h.
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

// The pieces between separators; always at least one.
std::vector<std::string> Split(const std::string& text, char separator);

// The pieces of a spec of at most `max_parts`: the memory `none` stands in front where the spec
// names no memory and has room for one.
std::vector<std::string> PartsOf(const std::string& spec, size_t max_parts);

// What stands before the first ':'.
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

// The row with this name; InvalidArgument that lists the known ones where there is none. `kind`
// names the table in messages.
template <typename Interface>
Result<const RegistryRow<Interface>*> FindRow(const char* kind, const std::string& name) {
  const auto* row = FindByName<Interface>(name);
  if (row != nullptr) return row;
  return InvalidArgument("unknown ", kind, " '", name, "'; known: ", KnownNames<Interface>());
}

// The parameters that `text`, a part of this row's name, gives, or their defaults.
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
