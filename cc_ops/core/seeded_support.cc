#include "core/seeded_support.h"

#include "core/bit_io.h"
#include "core/radix_sort.h"
#include "core/seeded_permutation.h"

namespace tfcompress {

std::vector<uint32_t> SeededSupport(uint32_t n, uint32_t k, uint64_t seed, Executor* executor) {
  const SeededPermutation permutation(n, seed);
  std::vector<uint32_t> indices(k);
  ForEachBlock(executor, k, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) indices[i] = permutation(static_cast<uint32_t>(i));
  });
  RadixSort(0, BitsFor(n), executor, &indices);
  return indices;
}

}  // namespace tfcompress
