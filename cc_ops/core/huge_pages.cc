#include "core/huge_pages.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tfcompress {
namespace {

constexpr size_t kHugePage = size_t{1} << 21;
constexpr size_t kMinBytes = 2 * kHugePage;  // At least one page is whole, wherever they begin.

}  // namespace

void PreferHugePages(void* memory, size_t num_bytes) {
  if (num_bytes < kMinBytes) return;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // Whole pages alone: what else is in the others keeps its own.
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (address + num_bytes) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // A failure is no loss.
#else
  static_cast<void>(memory);
#endif
}

}  // namespace tfcompress
