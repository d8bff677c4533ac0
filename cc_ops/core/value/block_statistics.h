// Sums and ranges over the fixed blocks of a tensor; the bits do not depend on the executor.
#ifndef TFCOMPRESS_CORE_VALUE_BLOCK_STATISTICS_H_
#define TFCOMPRESS_CORE_VALUE_BLOCK_STATISTICS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/executor.h"
#include "core/simd.h"
#include "core/span.h"

namespace tfcompress {

// Returns reduce(begin, end) for each block of [0, k), in the order of the blocks.
template <typename T, typename Reduce>
std::vector<T> ReduceBlocks(int64_t k, Executor* executor, const Reduce& reduce) {
  std::vector<T> results(NumBlocks(k));
  ForEachBlock(executor, k, [&](int64_t block, int64_t begin, int64_t end) {
    results[block] = reduce(begin, end);
  });
  return results;
}

// The least and the largest of some integers.
template <typename Key>
struct KeyRange {
  Key least = std::numeric_limits<Key>::max();
  Key largest = std::numeric_limits<Key>::min();
};

// Returns those of key_of(value) over all values.
template <typename KeyOf>
auto KeyRangeOf(Span<const float> values, Executor* executor, const KeyOf& key_of) {
  using Found = KeyRange<decltype(key_of(0.0f))>;
  const auto reduce = [&](int64_t begin, int64_t end) {
    Found extremes;
    Vectorized([=, x = values.data(), out = &extremes] {
      auto [least, largest] = Found();
      for (int64_t i = begin; i < end; ++i) {
        least = std::min(least, key_of(x[i]));
        largest = std::max(largest, key_of(x[i]));
      }
      *out = {least, largest};
    });
    return extremes;
  };
  Found all;
  for (const Found& block : ReduceBlocks<Found>(values.size(), executor, reduce))
    all = {std::min(all.least, block.least), std::max(all.largest, block.largest)};
  return all;
}

// Returns term(begin) + ... + term(end - 1), in four independent sums: a single one would wait for
// each addition.
template <typename Term>
double SumTerms(int64_t begin, int64_t end, const Term& term) {
  double sums[4] = {};
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < end; ++i) sums[0] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Elements of a part, which is summed separately; short enough to occupy all threads of a GPU.
inline constexpr int64_t kSumPart = 1024;
static_assert(kBlockElements % kSumPart == 0);

// Returns the sum of term(i) over [begin, end), as the sum of the sums of parts, in order.
template <typename Term>
double SumParts(int64_t begin, int64_t end, const Term& term) {
  double sum = 0;
  for (; begin < end; begin += kSumPart)
    sum += SumTerms(begin, std::min(end, begin + kSumPart), term);
  return sum;
}

// Returns the sum of term(i) over [0, k), as the sum of the sums of blocks.
template <typename Term>
double SumOverBlocks(int64_t k, Executor* executor, const Term& term) {
  const auto reduce = [&](int64_t begin, int64_t end) {
    double sum = 0;
    Vectorized([=, out = &sum, &term] { *out = SumParts(begin, end, term); });
    return sum;
  };
  double sum = 0;
  for (double block : ReduceBlocks<double>(k, executor, reduce)) sum += block;
  return sum;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_BLOCK_STATISTICS_H_
