// Supports that a seed implies: k of n elements at random, without replacement. Only the seed in
// the frame's header is sent. FORMAT.md, "Seeded supports".
#ifndef TFCOMPRESS_CORE_SEEDED_SUPPORT_H_
#define TFCOMPRESS_CORE_SEEDED_SUPPORT_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"

namespace tfcompress {

// k distinct indices below n, ascending, k <= n: the first k of a permutation of [0, n) that the
// seed chooses. The same for every executor; O(k) time and memory.
std::vector<uint32_t> SeededSupport(uint32_t n, uint32_t k, uint64_t seed, Executor* executor);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SEEDED_SUPPORT_H_
