// Prints how the names of the benchmarks begin that every row of the registry should have, one a
// line: kind, name, and each choice of an index codec that is not the default.
#include <cstdio>
#include <string>

#include "core/linear_codec.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

template <typename Interface>
void Print(const char* kind) {
  for (const auto& row : Registry<Interface>()) std::printf("%s/%s/\n", kind, row.name.c_str());
}

void PrintChoices() {
  for (const auto& row : Registry<IndexCodec>()) {
    for (const ParamSpec& param : row.definition.params) {
      for (const std::string& choice : param.choices) {
        if (choice == param.default_value) continue;
        std::printf("index/%s:%s=%s/\n", row.name.c_str(), param.name.c_str(), choice.c_str());
      }
    }
  }
}

// A sparsifier that sends everything selects nothing.
void PrintSparsifiers() {
  for (const auto& row : Registry<Sparsifier>()) {
    const auto defaults = Params::Parse(row.name, row.definition.params, {});
    if (row.definition.make(defaults.value())->implied() == Implied::kEverything) continue;
    std::printf("sparsifier/%s/\n", row.name.c_str());
  }
}

}  // namespace
}  // namespace tfcompress

int main() {
  tfcompress::PrintSparsifiers();
  tfcompress::Print<tfcompress::IndexCodec>("index");
  tfcompress::PrintChoices();
  tfcompress::Print<tfcompress::ValueCodec>("value");
  tfcompress::Print<tfcompress::SparseCodec>("joint");
  tfcompress::Print<tfcompress::LinearCodec>("linear");
  return 0;
}
