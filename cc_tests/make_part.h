// Makes parts of a compressor by name, for tests.
#ifndef TFCOMPRESS_CC_TESTS_MAKE_PART_H_
#define TFCOMPRESS_CC_TESTS_MAKE_PART_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"

namespace tfcompress {

// Makes the registered `name` with these parameters, which must be valid.
template <typename Interface>
std::unique_ptr<const Interface> MakePart(
    const std::string& name, const std::vector<std::pair<std::string, std::string>>& given = {}) {
  const Definition<Interface>& definition = FindByName<Interface>(name)->definition;
  return definition.make(Params::Parse(name, definition.params, given).value());
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_MAKE_PART_H_
