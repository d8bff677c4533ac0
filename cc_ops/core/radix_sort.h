// Stable least-significant-digit radix sort of packed unsigned items. A key with a payload is one
// uint64: the key in the high half, the payload in the low one.
#ifndef TFCOMPRESS_CORE_RADIX_SORT_H_
#define TFCOMPRESS_CORE_RADIX_SORT_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/executor.h"
#include "core/span.h"

namespace tfcompress {

inline uint64_t PackItem(uint32_t key, uint32_t payload) {
  return static_cast<uint64_t>(key) << 32 | payload;
}
inline uint32_t ItemKey(uint64_t item) { return static_cast<uint32_t>(item >> 32); }
inline uint32_t ItemPayload(uint64_t item) { return static_cast<uint32_t>(item); }

namespace radix_sort_internal {

// The widest digit that still scatters well: its 2048 counters fill half of the L1 cache.
inline constexpr int kMaxDigitBits = 11;

// Converts counts[block][digit] to the position at which each block writes its first item of each
// digit. Returns false if all items have the same digit, so that nothing needs to be moved.
inline bool CountsToOffsets(size_t num_items, size_t num_digits, std::vector<uint32_t>* counts) {
  const size_t num_blocks = counts->size() / num_digits;
  uint32_t offset = 0;
  for (size_t digit = 0; digit < num_digits; ++digit) {
    const uint32_t first = offset;
    for (size_t block = 0; block < num_blocks; ++block) {
      offset += std::exchange((*counts)[block * num_digits + digit], offset);
    }
    if (offset - first == num_items) return false;
  }
  return true;
}

template <typename Item>
void SortByDigit(int shift, int digit_bits, Executor* executor, std::vector<Item>* items,
                 std::vector<Item>* scratch) {
  const size_t num_digits = size_t{1} << digit_bits;
  const Item mask = static_cast<Item>(num_digits - 1);
  const Item* source = items->data();
  std::vector<uint32_t> offsets(NumBlocks(items->size()) * num_digits);
  ForEachBlock(executor, items->size(), [&](int64_t block, int64_t begin, int64_t end) {
    uint32_t* count = offsets.data() + block * num_digits;
    for (int64_t i = begin; i < end; ++i) ++count[(source[i] >> shift) & mask];
  });
  if (!CountsToOffsets(items->size(), num_digits, &offsets)) return;

  scratch->resize(items->size());
  Item* target = scratch->data();
  ForEachBlock(executor, items->size(), [&](int64_t block, int64_t begin, int64_t end) {
    uint32_t* offset = offsets.data() + block * num_digits;
    for (int64_t i = begin; i < end; ++i) target[offset[(source[i] >> shift) & mask]++] = source[i];
  });
  items->swap(*scratch);
}

}  // namespace radix_sort_internal

// Sorts fewer than 2^32 items ascending by their bits [first_bit, first_bit + num_bits); items with
// equal bits keep their order, so the result is the same for every executor.
template <typename Item>
void RadixSort(int first_bit, int num_bits, Executor* executor, std::vector<Item>* items) {
  if (items->size() < 2 || num_bits <= 0) return;
  const int num_passes =
      (num_bits + radix_sort_internal::kMaxDigitBits - 1) / radix_sort_internal::kMaxDigitBits;
  const int digit_bits = (num_bits + num_passes - 1) / num_passes;
  std::vector<Item> scratch;
  for (int bit = 0; bit < num_bits; bit += digit_bits) {
    const int width = digit_bits < num_bits - bit ? digit_bits : num_bits - bit;
    radix_sort_internal::SortByDigit(first_bit + bit, width, executor, items, &scratch);
  }
}

// Sorts items made by PackItem by their keys.
inline void RadixSortByKey(Executor* executor, std::vector<uint64_t>* items) {
  RadixSort(32, 32, executor, items);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_RADIX_SORT_H_
