#include "core/sketch/cell_hash.h"

namespace tfcompress {
namespace {

// The loop is compiled once for each of these instruction sets, with the same results.
using Filler = void (*)(const CellHash& hash, uint64_t first, int64_t count, SignedCell* cells);

inline __attribute__((always_inline)) void FillCells(CellHash hash, uint64_t first, int64_t count,
                                                     SignedCell* cells) {
  for (int64_t j = 0; j < count; ++j) cells[j] = hash(first + static_cast<uint64_t>(j));
}

void FillBaseline(const CellHash& hash, uint64_t first, int64_t count, SignedCell* cells) {
  FillCells(hash, first, count, cells);
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void FillAvx2(const CellHash& hash, uint64_t first, int64_t count,
                                              SignedCell* cells) {
  FillCells(hash, first, count, cells);
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) void FillAvx512(const CellHash& hash,
                                                                     uint64_t first, int64_t count,
                                                                     SignedCell* cells) {
  FillCells(hash, first, count, cells);
}

Filler FastestFiller() {
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  if (has_avx512) return FillAvx512;
  return __builtin_cpu_supports("avx2") ? FillAvx2 : FillBaseline;
}

#else

Filler FastestFiller() { return FillBaseline; }

#endif

}  // namespace

void CellHash::Fill(uint64_t first, int64_t count, SignedCell* cells) const {
  static const Filler filler = FastestFiller();
  filler(*this, first, count, cells);
}

}  // namespace tfcompress
