#include "core/joint/merge_groups.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "core/bit_io.h"
#include "core/float_order.h"
#include "core/huge_pages.h"
#include "core/radix_sort.h"
#include "core/simd.h"

namespace tfcompress {
namespace {

// With more elements than that for each key, it is faster to sort than to look at all of them.
constexpr uint64_t kMaxElementsPerKey = 16;

constexpr int64_t kTile = 4096;  // Elements whose values stay in the L1 cache.
// Bits of the value of an element without a key; no finite value has them.
constexpr uint32_t kNoValue = 0xFFFFFFFFu;

// Overwrites the tile of the elements [begin, end) with the values of the keys there, and returns
// their number. next[g] is the first key of group g that is not below `begin`, then `end`.
size_t FillTile(const std::vector<DecodedGroup>& groups, uint32_t begin, uint32_t end, size_t* next,
                uint32_t* tile) {
  std::fill(tile, tile + (end - begin), kNoValue);
  size_t num_keys = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<uint32_t>& keys = groups[g].elements.keys;
    const uint16_t* const offsets = groups[g].elements.offsets.data();
    const float* const values = groups[g].values.data();
    size_t i = next[g];
    for (; i < keys.size() && keys[i] < end; ++i)
      tile[keys[i] - begin] = FloatBits(values[offsets[i]]);
    num_keys += i - next[g];
    next[g] = i;
  }
  return num_keys;
}

// Lists the elements of a tile from `begin` on that have a value, and returns their number; `size`
// elements are stored.
size_t ListTile(const uint32_t* tile, uint32_t begin, size_t size, uint32_t* indices,
                float* values) {
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) {
    indices[count] = begin + static_cast<uint32_t>(i);
    values[count] = FloatFromBits(tile[i]);
    count += tile[i] != kNoValue;
  }
  return count;
}

// The same for a tile that has as many keys as elements: all of them, unless one is there twice.
size_t CopyTile(const uint32_t* tile, uint32_t begin, size_t size, uint32_t* indices,
                float* values) {
  size_t count = 0;
  Vectorized([=, out = &count] {
    uint32_t num_values = 0;
    for (size_t i = 0; i < size; ++i) {
      values[i] = FloatFromBits(tile[i]);
      num_values += tile[i] != kNoValue;
    }
    if (indices != nullptr) {
      for (size_t i = 0; i < size; ++i) indices[i] = begin + static_cast<uint32_t>(i);
    }
    *out = num_values;
  });
  return count;
}

// Puts values in their places, tile by tile, and lists them. Returns whether no key was there
// twice.
bool MergeDense(const std::vector<DecodedGroup>& groups, Executor* executor, SparseTensor* out) {
  std::atomic<bool> unique{true};
  ForEachBlock(executor, out->n, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<size_t> next;
    for (const DecodedGroup& group : groups) {
      const std::vector<uint32_t>& keys = group.elements.keys;
      next.push_back(std::lower_bound(keys.begin(), keys.end(), begin) - keys.begin());
    }
    size_t rank = std::accumulate(next.begin(), next.end(), size_t{0});
    uint32_t tile[kTile];
    uint32_t indices[kTile];
    float values[kTile];
    for (; begin < end; begin += kTile) {
      const auto size = static_cast<size_t>(std::min(kTile, end - begin));
      const auto first = static_cast<uint32_t>(begin);
      const size_t num_keys =
          FillTile(groups, first, first + static_cast<uint32_t>(size), next.data(), tile);
      uint32_t* const out_indices = out->everything ? nullptr : out->indices.data() + rank;
      float* const out_values = out->values.data() + rank;
      if (num_keys == size) {
        if (CopyTile(tile, first, size, out_indices, out_values) != num_keys) unique = false;
      } else if (!out->everything && ListTile(tile, first, size, indices, values) == num_keys) {
        std::copy_n(indices, num_keys, out_indices);
        std::copy_n(values, num_keys, out_values);
      } else {
        unique = false;
      }
      rank += num_keys;
    }
  });
  return unique;
}

// Sorts the elements by key. Returns whether no key was there twice.
bool MergeSparse(const std::vector<DecodedGroup>& groups, Executor* executor, SparseTensor* out) {
  std::vector<uint64_t> items;
  items.reserve(out->values.size());
  for (const DecodedGroup& group : groups) {
    for (size_t i = 0; i < group.elements.keys.size(); ++i) {
      const float value = group.values[group.elements.offsets[i]];
      items.push_back(PackItem(group.elements.keys[i], FloatBits(value)));
    }
  }
  RadixSort(32, BitsFor(out->n), executor, &items);
  std::atomic<bool> unique{true};
  ForEachBlock(executor, items.size(), [&](int64_t, int64_t begin, int64_t end) {
    bool block_unique = true;
    for (int64_t i = begin; i < end; ++i) {
      block_unique &= i == 0 || ItemKey(items[i]) != ItemKey(items[i - 1]);
      out->indices[i] = ItemKey(items[i]);
      out->values[i] = FloatFromBits(ItemPayload(items[i]));
    }
    if (!block_unique) unique = false;
  });
  return unique;
}

}  // namespace

Status MergeGroups(const std::vector<DecodedGroup>& groups, Executor* executor, SparseTensor* out) {
  size_t k = 0;
  for (const DecodedGroup& group : groups) k += group.elements.keys.size();
  if (out->everything && k != out->n) return DataLoss(k, " elements, all ", out->n, " expected");
  const size_t num_indices = out->everything ? 0 : k;
  ReserveHuge(k, &out->values);
  ReserveHuge(num_indices, &out->indices);
  out->values.resize(k);
  out->indices.resize(num_indices);
  const bool is_sparse = out->n > kMaxElementsPerKey * k;
  if ((is_sparse ? MergeSparse : MergeDense)(groups, executor, out)) return OkStatus();
  return DataLoss("a key is in two groups");
}

}  // namespace tfcompress
