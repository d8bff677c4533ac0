#include "core/spec.h"

namespace tfcompress {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<std::string> PartsOf(const std::string& spec, size_t max_parts) {
  std::vector<std::string> parts = Split(spec, '|');
  const bool names_memory = FindByName<Memory>(NameOf(parts[0])) != nullptr;
  if (!names_memory && parts.size() < max_parts) parts.insert(parts.begin(), "none");
  return parts;
}

std::string NameOf(const std::string& part) { return part.substr(0, part.find(':')); }

Result<std::vector<std::pair<std::string, std::string>>> KeyValuesOf(const std::string& part) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const size_t colon = part.find(':');
  if (colon == std::string::npos) return pairs;
  for (const std::string& pair : Split(part.substr(colon + 1), ',')) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return InvalidArgument("'", pair, "' in '", part, "' is not key=value");
    }
    pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return pairs;
}

std::string MemoryPrefix(const std::string& canonical_memory) {
  return canonical_memory == "none" ? "" : canonical_memory + "|";
}

}  // namespace tfcompress
