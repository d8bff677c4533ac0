// A sample bounds the k-th largest magnitude from below; one pass over the dense vector lists the
// few elements above that bound; an exact radix selection among those finds the k-th largest. If
// the bound was too high, the k-th largest of all elements is selected instead, and the same steps
// are repeated with that exact bound.
#include "core/sparsify/select_largest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "core/collect.h"
#include "core/float_filter.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

// The cut of a selection: everything above `magnitude` is selected, and the first `num_ties` of
// those equal to it.
struct Cut {
  uint32_t magnitude;
  int64_t num_ties;
};

// A digit of a magnitude. Histograms of digits, from high to low, determine one. Magnitudes have 31
// bits; most candidates are within a factor of two above their bound, so that what they have beyond
// it takes 23 bits.
struct Digit {
  int shift;
  int num_bits;
};
constexpr std::initializer_list<Digit> kDigits = {{20, 11}, {10, 10}, {0, 10}};
constexpr std::initializer_list<Digit> kDigitsAboveBound = {{11, 12}, {0, 11}};
constexpr uint32_t kMostAboveBound = (1u << 23) - 1;
constexpr size_t kMaxBuckets = size_t{1} << 12;
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
          histogram[magnitude >> digit.shift & digit_mask] += magnitude >> prefix_shift == prefix;
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
Cut SelectCut(int64_t size, const MagnitudeAt& magnitude_at, int64_t k,
              std::initializer_list<Digit> digits, Executor* executor) {
  uint32_t prefix = 0;
  for (const Digit& digit : digits) {
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
      kDigits, executor);
}

Cut SelectCut(Span<const float> values, int64_t k, Executor* executor) {
  return SelectCut(
      static_cast<int64_t>(values.size()),
      [&](int64_t i) { return MagnitudeBits(values.data()[i]); }, k, kDigits, executor);
}

// The same for values of at least that magnitude.
Cut SelectCutAbove(uint32_t least_magnitude, Span<const float> values, int64_t k,
                   Executor* executor) {
  const Cut cut = SelectCut(
      static_cast<int64_t>(values.size()),
      [&](int64_t i) {
        return std::min(MagnitudeBits(values.data()[i]) - least_magnitude, kMostAboveBound);
      },
      k, kDigitsAboveBound, executor);
  if (cut.magnitude == kMostAboveBound) return SelectCut(values, k, executor);
  return {least_magnitude + cut.magnitude, cut.num_ties};
}

// Elements of a sample of n. Each draw from a large vector waits for memory, so that a larger
// sample costs more than the candidates that it saves; of a small vector, a sample would cost more
// than the vector itself.
constexpr int64_t kLeastSample = 1 << 10;
int64_t SampleSize(int64_t n) {
  return std::min(n, std::clamp<int64_t>(n / 16, kLeastSample, 1 << 13));
}

// Magnitudes of one element from each of SampleSize(n) equal strata, at a hashed position, so that
// periods in the layout of a weight do not bias the sample.
std::vector<uint32_t> Sample(int64_t n, const ReadElements& read) {
  const int64_t size = SampleSize(n);
  std::vector<uint32_t> positions(static_cast<size_t>(size));
  const auto stratum_elements = static_cast<uint32_t>(n / size);
  for (int64_t i = 0; i < size; ++i) {
    const auto hash = static_cast<uint32_t>(HashKey(static_cast<uint64_t>(i), 0));
    positions[i] = static_cast<uint32_t>(i * n / size + FastRange32(hash, stratum_elements));
  }
  std::vector<float> elements(positions.size());
  read(positions, elements.data());
  std::vector<uint32_t> magnitudes(elements.size());
  std::transform(elements.begin(), elements.end(), magnitudes.begin(), MagnitudeBits);
  return magnitudes;
}

// Returns a magnitude that is almost certainly not above the k-th largest of n > k > 0 elements,
// and not far below it.
uint32_t SampleLowerBound(int64_t n, int64_t k, const ReadElements& read) {
  const std::vector<uint32_t> sample = Sample(n, read);
  const auto size = static_cast<int64_t>(sample.size());
  if (size == n) return SelectCut(sample, k, SerialExecutor()).magnitude;
  // The number of sampled elements among the k largest has mean `expected` and at most its root as
  // deviation: five deviations more of the sample reach below the k-th largest.
  const double expected =
      static_cast<double>(size) * static_cast<double>(k) / static_cast<double>(n);
  const auto rank = static_cast<int64_t>(expected + 5 * std::sqrt(expected) + 8);
  return rank < size ? SelectCut(sample, rank, SerialExecutor()).magnitude : 0;
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
void KeepAbove(Cut cut, Candidates* candidates) {
  auto& [indices, values] = *candidates;
  const auto size = static_cast<int64_t>(values.size());
  size_t count = 0;
  for (int64_t begin = 0; begin < size; begin += Collector::kChunk) {
    uint32_t positions[Collector::kChunk];
    float kept[Collector::kChunk];
    FloatList list{FloatFilter::AtLeast(cut.magnitude), positions, kept};
    ListThose(values.data() + begin, std::min(Collector::kChunk, size - begin),
              static_cast<uint32_t>(begin), &list);
    for (int64_t i = 0; i < list.count; ++i) {
      const bool is_tie = MagnitudeBits(kept[i]) == cut.magnitude;
      indices[count] = indices[positions[i]];
      values[count] = kept[i];
      count += !is_tie || cut.num_ties > 0;
      cut.num_ties -= is_tie;
    }
  }
  indices.resize(count);
  values.resize(count);
}

}  // namespace

uint32_t LeastOfLargest(int64_t n, int64_t k, const ReadElements& read) {
  return k < n ? SampleLowerBound(n, k, read) + 1 : 0;
}

void KeepLargest(Span<const float> dense, size_t k, uint32_t least_magnitude, Executor* executor,
                 Candidates* candidates) {
  const auto count = static_cast<int64_t>(k);
  std::vector<uint32_t>& indices = candidates->indices;
  if (indices.size() < k) {
    // Elements just below the candidates may do; else the cut is that of all elements.
    const size_t num_above = indices.size();
    AppendTies(dense, least_magnitude - 1, k - num_above, &indices);
    if (indices.size() < k) {
      const Cut cut = SelectCut(dense, count, executor);
      *candidates = CollectAtLeast(dense, cut.magnitude, executor);
      return KeepAbove(cut, candidates);
    }
    std::inplace_merge(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(num_above),
                       indices.end());
    candidates->values.resize(k);
    for (size_t i = 0; i < k; ++i) candidates->values[i] = dense[indices[i]];
  } else if (indices.size() > k) {
    KeepAbove(SelectCutAbove(least_magnitude, candidates->values, count, executor), candidates);
  }
}

void SelectLargest(Span<const float> dense, size_t k, Executor* executor,
                   std::vector<uint32_t>* indices) {
  indices->clear();
  if (k == 0) return;
  const auto n = static_cast<int64_t>(dense.size());
  const uint32_t least = LeastOfLargest(n, static_cast<int64_t>(k), ReadFrom(dense));
  Candidates candidates = CollectAtLeast(dense, least, executor);
  KeepLargest(dense, k, least, executor, &candidates);
  *indices = std::move(candidates.indices);
}

}  // namespace tfcompress
