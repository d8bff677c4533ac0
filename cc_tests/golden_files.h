// The files of golden/.
#ifndef TFCOMPRESS_CC_TESTS_GOLDEN_FILES_H_
#define TFCOMPRESS_CC_TESTS_GOLDEN_FILES_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/span.h"

namespace tfcompress {

// The tree that was built, or a copy of it that the environment names.
inline std::filesystem::path SourceFolder() {
  const char* copy = std::getenv("TFC_SOURCE_DIR");
  return copy == nullptr ? TFC_SOURCE_DIR : copy;
}

inline std::filesystem::path GoldenFolder() { return SourceFolder() / "cc_tests" / "golden"; }

// Whether to write golden files instead of comparing.
inline bool Updates() {
  const char* update = std::getenv("TFC_UPDATE_GOLDEN");
  return update != nullptr && std::string(update) == "1";
}

inline Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

inline void WriteFile(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_GOLDEN_FILES_H_
