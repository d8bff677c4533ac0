// A sample bounds the k-th largest magnitude from below; one pass over the dense vector lists the
// few elements above that bound; an exact radix selection among those finds the k-th largest. If
// the bound was too high, the k-th largest of all elements is selected instead, and the same steps
// are repeated with that exact bound.
#include "core/sparsify/select_largest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/hash.h"
#include "core/sparsify/collect.h"

namespace tfcompress {
namespace {

// The cut of a selection: everything above `magnitude` is selected, and the first `num_ties` of
// those equal to it.
struct Cut {
  uint32_t magnitude;
  int64_t num_ties;
};

// A digit of a magnitude. Magnitudes have 31 bits; three histograms of digits, from high to low,
// determine one.
struct Digit {
  int shift;
  int num_bits;
};
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};
constexpr size_t kMaxBuckets = size_t{1} << 11;
using Histogram = std::array<uint32_t, kMaxBuckets>;

// Counts, for the elements that agree with `prefix` above `digit`, the values of that digit.
template <typename MagnitudeAt>
Histogram CountDigit(int64_t size, const MagnitudeAt& magnitude_at, uint32_t prefix, Digit digit,
                     Executor* executor) {
  // At most 64 histograms, however large the input; sums do not depend on the cut into blocks.
  const int64_t block_elements = std::max(kBlockElements, NumBlocks(size, 64));
  std::vector<Histogram> parts(static_cast<size_t>(NumBlocks(size, block_elements)));
  const uint32_t prefix_shift = static_cast<uint32_t>(digit.shift + digit.num_bits);
  const uint32_t digit_mask = (1u << digit.num_bits) - 1;
  ForEachBlock(
      executor, size,
      [&](int64_t block, int64_t begin, int64_t end) {
        Histogram histogram{};
        for (int64_t i = begin; i < end; ++i) {
          const uint32_t magnitude = magnitude_at(i);
          if (magnitude >> prefix_shift == prefix)
            ++histogram[magnitude >> digit.shift & digit_mask];
        }
        parts[block] = histogram;
      },
      block_elements);
  Histogram total{};
  for (const Histogram& part : parts) {
    for (size_t bucket = 0; bucket < kMaxBuckets; ++bucket) total[bucket] += part[bucket];
  }
  return total;
}

// Finds the cut that keeps exactly k of `size` elements, 1 <= k <= size.
template <typename MagnitudeAt>
Cut SelectCut(int64_t size, const MagnitudeAt& magnitude_at, int64_t k, Executor* executor) {
  uint32_t prefix = 0;
  for (const Digit& digit : kDigits) {
    const Histogram histogram = CountDigit(size, magnitude_at, prefix, digit, executor);
    uint32_t bucket = (1u << digit.num_bits) - 1;
    for (; histogram[bucket] < k; --bucket) k -= histogram[bucket];
    prefix = prefix << digit.num_bits | bucket;
  }
  return {prefix, k};
}

Cut SelectCut(Span<const uint32_t> magnitudes, int64_t k, Executor* executor) {
  return SelectCut(
      static_cast<int64_t>(magnitudes.size()), [&](int64_t i) { return magnitudes.data()[i]; }, k,
      executor);
}

Cut SelectCut(Span<const float> dense, int64_t k, Executor* executor) {
  return SelectCut(
      static_cast<int64_t>(dense.size()), [&](int64_t i) { return MagnitudeBits(dense.data()[i]); },
      k, executor);
}

// Returns a magnitude that is almost certainly not above the k-th largest of `dense`, and not far
// below it.
uint32_t SampleLowerBound(Span<const float> dense, int64_t k, Executor* executor) {
  constexpr int64_t kSampleSize = 1 << 15;
  const int64_t n = static_cast<int64_t>(dense.size());
  if (n <= kSampleSize) return SelectCut(dense, k, executor).magnitude;

  // Draw one element from each of kSampleSize equal strata, at a hashed position, so that periods
  // in the layout of a weight do not bias the sample.
  std::vector<uint32_t> sample(kSampleSize);
  const auto stratum_elements = static_cast<uint32_t>(n / kSampleSize);
  for (int64_t i = 0; i < kSampleSize; ++i) {
    const auto place =
        FastRange32(static_cast<uint32_t>(HashKey(static_cast<uint64_t>(i), 0)), stratum_elements);
    sample[i] = MagnitudeBits(dense.data()[i * n / kSampleSize + place]);
  }
  // The number of sampled elements among the k largest has mean `expected` and at most its root as
  // deviation: five deviations more of the sample reach below the k-th largest.
  const double expected =
      static_cast<double>(kSampleSize) * static_cast<double>(k) / static_cast<double>(n);
  const auto rank = static_cast<int64_t>(expected + 5 * std::sqrt(expected) + 8);
  return rank < kSampleSize ? SelectCut(sample, rank, executor).magnitude : 0;
}

// Appends the first `count` elements of this magnitude, or all when there are fewer.
void AppendTies(Span<const float> dense, uint32_t magnitude, size_t count,
                std::vector<uint32_t>* indices) {
  for (size_t i = 0; i < dense.size() && count > 0; ++i) {
    if (MagnitudeBits(dense.data()[i]) != magnitude) continue;
    indices->push_back(static_cast<uint32_t>(i));
    --count;
  }
}

// Keeps the elements above the cut and its first ties.
void KeepAbove(Cut cut, const std::vector<uint32_t>& magnitudes, std::vector<uint32_t>* indices) {
  uint32_t* kept = indices->data();
  size_t count = 0;
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    const bool is_tie = magnitudes[i] == cut.magnitude && cut.num_ties > 0;
    cut.num_ties -= is_tie;
    kept[count] = kept[i];
    count += is_tie || magnitudes[i] > cut.magnitude;
  }
  indices->resize(count);
}

// Selects the k largest given a lower bound of the k-th largest magnitude; returns false if the
// bound was too high. Elements equal to the bound are added only as far as needed: otherwise a
// gradient that is mostly zeros would list all of them.
bool SelectFrom(uint32_t lower_bound, Span<const float> dense, size_t k, Executor* executor,
                std::vector<uint32_t>* indices) {
  std::vector<uint32_t> magnitudes;
  CollectAtLeast(dense, lower_bound + 1, executor, indices, &magnitudes);
  if (indices->size() >= k) {
    KeepAbove(SelectCut(magnitudes, static_cast<int64_t>(k), executor), magnitudes, indices);
    return true;
  }
  const auto num_above = static_cast<std::ptrdiff_t>(indices->size());
  AppendTies(dense, lower_bound, k - indices->size(), indices);
  std::inplace_merge(indices->begin(), indices->begin() + num_above, indices->end());
  return indices->size() == k;
}

}  // namespace

void SelectLargest(Span<const float> dense, size_t k, Executor* executor,
                   std::vector<uint32_t>* indices) {
  const auto count = static_cast<int64_t>(k);
  if (k == dense.size()) {
    indices->resize(k);
    std::iota(indices->begin(), indices->end(), 0u);
  } else if (k == 0) {
    indices->clear();
  } else if (!SelectFrom(SampleLowerBound(dense, count, executor), dense, k, executor, indices)) {
    SelectFrom(SelectCut(dense, count, executor).magnitude, dense, k, executor, indices);
  }
}

}  // namespace tfcompress
