// Lengths of Huffman words with a limited length. Shared with kernels: the caller provides the
// memory.
#ifndef TFCOMPRESS_CORE_ENTROPY_PACKAGE_MERGE_H_
#define TFCOMPRESS_CORE_ENTROPY_PACKAGE_MERGE_H_

#include <cstdint>

#include "core/host_device.h"

namespace tfcompress {

// Room for 2m elements each.
struct PackageMergeSpace {
  uint64_t* items;
  uint64_t* merged;
  uint16_t* is_count;
};

// Sets lengths[i] to the length of the word of counts[i], for m ascending counts, so that words of
// at most `limit` <= 16 bits take the fewest bits. Uses the package-merge algorithm (Larmore and
// Hirschberg, 1990): in `limit` rounds, the items of the round before are paired, and the pairs and
// the counts are merged in ascending order. In the last round, the first 2m - 2 items are chosen; a
// chosen pair chooses its two items of the round before. The length of a word is the number of
// rounds in which its count is chosen. A single count has a word of one bit.
TFC_HOST_DEVICE inline void PackageMerge(const uint64_t* counts, uint32_t m, int limit,
                                         PackageMergeSpace space, uint8_t* lengths) {
  for (uint32_t i = 0; i < m; ++i) lengths[i] = m == 1;
  if (m <= 1) return;
  // Bit r of is_count[i]: whether item i of round r is a count.
  for (uint32_t i = 0; i < 2 * m; ++i) space.is_count[i] = 0;
  uint32_t num_items = 0;
  for (int round = 0; round < limit; ++round) {
    uint32_t num_merged = 0, next_count = 0, next_pair = 0;
    while (next_count < m || next_pair + 1 < num_items) {
      const bool pairs_left = next_pair + 1 < num_items;
      const uint64_t pair = pairs_left ? space.items[next_pair] + space.items[next_pair + 1] : 0;
      const bool takes_count = next_count < m && (!pairs_left || counts[next_count] <= pair);
      if (takes_count) {
        space.is_count[num_merged] = static_cast<uint16_t>(space.is_count[num_merged] | 1 << round);
      } else {
        next_pair += 2;
      }
      space.merged[num_merged++] = takes_count ? counts[next_count++] : pair;
    }
    uint64_t* const items = space.items;
    space.items = space.merged;
    space.merged = items;
    num_items = num_merged;
  }

  uint32_t num_chosen = 2 * m - 2;
  for (int round = limit; round-- > 0;) {
    uint32_t num_counts = 0;
    for (uint32_t i = 0; i < num_chosen; ++i) num_counts += space.is_count[i] >> round & 1;
    for (uint32_t i = 0; i < num_counts; ++i) ++lengths[i];
    num_chosen = 2 * (num_chosen - num_counts);
  }
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_PACKAGE_MERGE_H_
