// A sample bounds the k-th largest magnitude from below; one pass over the dense vector lists the
// few elements above that bound; an exact radix selection among those finds the k-th largest. If
// the bound was too high, the k-th largest of all elements is selected instead, and the same steps
// are repeated with that exact bound.
#include "core/sparsify/select_largest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "core/collect.h"
#include "core/float_filter.h"
#include "core/float_order.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

// The cut of a selection: everything above `magnitude` is selected, and the first `num_ties` of
// those equal to it.
struct Cut {
  uint32_t magnitude;
  int64_t num_ties;
};

// Numbers of the values in each of consecutive ranges of magnitudes; the last one has no end.
constexpr int kLogRanges = 12;
constexpr uint32_t kNumRanges = 1u << kLogRanges;
using Histogram = std::array<uint32_t, kNumRanges>;

// Widths of ranges, as powers of two. Those of any magnitude, which has 31 bits, and of candidates:
// most are within a factor of two above their bound, so that what they have beyond it takes 23
// bits.
constexpr int kLogWidthOfAny = 31 - kLogRanges;
constexpr int kLogWidthAboveBound = 23 - kLogRanges;

// Counts the values, none of which is below `least`, in ranges of 2^log_width from there on.
Histogram CountRanges(Span<const float> values, uint32_t least, int log_width, Executor* executor) {
  const auto size = static_cast<int64_t>(values.size());
  // At most 64 histograms, however large the input; sums do not depend on the cut into blocks.
  const int64_t block_elements = std::max(kBlockElements, NumBlocks(size, 64));
  std::vector<Histogram> parts(static_cast<size_t>(NumBlocks(size, block_elements)));
  ForEachBlock(
      executor, size,
      [&](int64_t block, int64_t begin, int64_t end) {
        uint32_t* const counts = parts[block].data();
        for (int64_t i = begin; i < end; ++i) {
          const uint32_t above = MagnitudeBits(values.data()[i]) - least;
          ++counts[std::min(above >> log_width, kNumRanges - 1)];
        }
      },
      block_elements);
  for (size_t i = 1; i < parts.size(); ++i) {
    for (size_t range = 0; range < kNumRanges; ++range) parts[0][range] += parts[i][range];
  }
  return parts[0];
}

// Returns the `count` values that pass.
std::vector<float> Filter(Span<const float> values, FloatFilter filter, size_t count) {
  std::vector<float> passing;
  passing.reserve(count);
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t begin = 0; begin < size; begin += Collector::kChunk) {
    uint32_t positions[Collector::kChunk];
    float found[Collector::kChunk];
    FloatList list{filter, positions, found};
    ListThose(values.data() + begin, std::min(Collector::kChunk, size - begin), 0, &list);
    passing.insert(passing.end(), found, found + list.count);
  }
  return passing;
}

// Values that are not worth a histogram.
constexpr size_t kFew = 512;

Cut SelectCutOfFew(Span<const float> values, int64_t k) {
  uint32_t magnitudes[kFew];
  std::transform(values.begin(), values.end(), magnitudes, MagnitudeBits);
  uint32_t* const kth = magnitudes + (k - 1);
  std::nth_element(magnitudes, kth, magnitudes + values.size(), std::greater<>());
  return {*kth, std::count(magnitudes, kth + 1, *kth)};
}

// Finds the cut that keeps exactly k of `values`, 1 <= k <= their number, none of which is below
// `least`: counts those in each range, and looks at the range of the k-th largest alone.
Cut SelectCut(Span<const float> values, uint32_t least, int log_width, int64_t k,
              Executor* executor) {
  if (values.size() <= kFew) return SelectCutOfFew(values, k);
  const Histogram histogram = CountRanges(values, least, log_width, executor);
  uint32_t range = kNumRanges - 1;
  for (; histogram[range] < k; --range) k -= histogram[range];
  const uint32_t first = least + (range << log_width);
  const bool has_end = range < kNumRanges - 1;
  if (has_end && log_width == 0) return {first, k};
  const FloatFilter filter = has_end ? FloatFilter::Between(first, first + (1u << log_width))
                                     : FloatFilter::AtLeast(first);
  return SelectCut(Filter(values, filter, histogram[range]), first,
                   has_end ? std::max(log_width - kLogRanges, 0) : kLogWidthOfAny, k, executor);
}

// Elements of a sample of n. Each draw from a large vector waits for memory, so that a larger
// sample costs more than the candidates that it saves; of a small vector, a sample would cost more
// than the vector itself.
constexpr int64_t kLeastSample = 1 << 10;
int64_t SampleSize(int64_t n) {
  return std::min(n, std::clamp<int64_t>(n / 16, kLeastSample, 1 << 13));
}

// One element from each of SampleSize(n) equal strata, at a hashed position, so that periods in the
// layout of a weight do not bias the sample.
std::vector<float> Sample(int64_t n, const ReadElements& read) {
  const int64_t size = SampleSize(n);
  std::vector<uint32_t> positions(static_cast<size_t>(size));
  const auto stratum_elements = static_cast<uint32_t>(n / size);
  for (int64_t i = 0; i < size; ++i) {
    const auto hash = static_cast<uint32_t>(HashKey(static_cast<uint64_t>(i), 0));
    positions[i] = static_cast<uint32_t>(i * n / size + FastRange32(hash, stratum_elements));
  }
  std::vector<float> elements(positions.size());
  read(positions, elements.data());
  return elements;
}

// Returns a magnitude that is almost certainly not above the k-th largest of n > k > 0 elements,
// and not far below it.
uint32_t SampleLowerBound(int64_t n, int64_t k, const ReadElements& read) {
  const std::vector<float> sample = Sample(n, read);
  const auto size = static_cast<int64_t>(sample.size());
  const auto select = [&](int64_t rank) {
    return SelectCut(sample, 0, kLogWidthOfAny, rank, SerialExecutor()).magnitude;
  };
  if (size == n) return select(k);
  // The number of sampled elements among the k largest has mean `expected` and at most its root as
  // deviation: five deviations more of the sample reach below the k-th largest.
  const double expected =
      static_cast<double>(size) * static_cast<double>(k) / static_cast<double>(n);
  const auto rank = static_cast<int64_t>(expected + 5 * std::sqrt(expected) + 8);
  return rank < size ? select(rank) : 0;
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

// Moves those of elements [begin, end) that have at least this magnitude behind the `count` that
// are kept already.
void KeepAtLeast(uint32_t magnitude, int64_t begin, int64_t end, Candidates* candidates,
                 int64_t* count) {
  uint32_t* const indices = candidates->indices.data();
  float* const values = candidates->values.data();
  for (; begin < end; begin += Collector::kChunk) {
    uint32_t positions[Collector::kChunk];
    FloatList list{FloatFilter::AtLeast(magnitude), positions, values + *count};
    ListThose(values + begin, std::min(Collector::kChunk, end - begin),
              static_cast<uint32_t>(begin), &list);
    for (int64_t i = 0; i < list.count; ++i) indices[*count + i] = indices[positions[i]];
    *count += list.count;
  }
}

// Keeps the elements above the cut and its first ties.
void KeepAbove(Cut cut, Candidates* candidates) {
  const auto& values = candidates->values;
  int64_t end_of_ties = 0;
  for (; cut.num_ties > 0; ++end_of_ties)
    cut.num_ties -= MagnitudeBits(values[end_of_ties]) == cut.magnitude;
  int64_t count = 0;
  KeepAtLeast(cut.magnitude, 0, end_of_ties, candidates, &count);
  KeepAtLeast(cut.magnitude + 1, end_of_ties, static_cast<int64_t>(values.size()), candidates,
              &count);
  candidates->indices.resize(static_cast<size_t>(count));
  candidates->values.resize(static_cast<size_t>(count));
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
      const Cut cut = SelectCut(dense, 0, kLogWidthOfAny, count, executor);
      *candidates = CollectAtLeast(dense, cut.magnitude, executor);
      return KeepAbove(cut, candidates);
    }
    std::inplace_merge(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(num_above),
                       indices.end());
    candidates->values.resize(k);
    for (size_t i = 0; i < k; ++i) candidates->values[i] = dense[indices[i]];
  } else if (indices.size() > k) {
    KeepAbove(SelectCut(candidates->values, least_magnitude, kLogWidthAboveBound, count, executor),
              candidates);
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
