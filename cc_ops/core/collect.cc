#include "core/collect.h"

#include <algorithm>
#include <numeric>

#include "core/float_filter.h"
#include "core/huge_pages.h"

namespace tfcompress {
namespace {

// Elements filtered at a time into buffers that stay in L1.
constexpr int64_t kFilterElements = 2048;

}  // namespace

void Collector::Look(int64_t begin, int64_t end, const float* values) {
  const FloatFilter filter = FloatFilter::AtLeast(min_magnitude_);
  uint32_t found[kFilterElements];
  float found_values[kFilterElements];
  Part& part = parts_[begin / kBlockElements];
  const int64_t first = begin / kBlockElements * kBlockElements;
  part.values = values - (begin - first);
  for (; begin < end; begin += kFilterElements, values += kFilterElements) {
    const int64_t size = std::min(end - begin, kFilterElements);
    const int64_t count = filter(values, size, static_cast<uint32_t>(begin), found, found_values);
    if (count == size && part.num_first == begin - first) {
      part.num_first += count;
      continue;
    }
    Candidates& others = part.others;
    others.indices.insert(others.indices.end(), found, found + count);
    others.values.insert(others.values.end(), found_values, found_values + count);
  }
}

Candidates Collector::Take() {
  size_t size = 0;
  for (const Part& part : parts_)
    size += static_cast<size_t>(part.num_first) + part.others.indices.size();
  Candidates all;
  ReserveHuge(size, &all.indices);
  ReserveHuge(size, &all.values);
  std::vector<uint32_t> first;
  for (size_t block = 0; block < parts_.size(); ++block) {
    const Part& part = parts_[block];
    first.resize(part.num_first);
    std::iota(first.begin(), first.end(), static_cast<uint32_t>(block * kBlockElements));
    all.indices.insert(all.indices.end(), first.begin(), first.end());
    all.values.insert(all.values.end(), part.values, part.values + part.num_first);
    all.indices.insert(all.indices.end(), part.others.indices.begin(), part.others.indices.end());
    all.values.insert(all.values.end(), part.others.values.begin(), part.others.values.end());
  }
  return all;
}

Candidates CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor) {
  const auto n = static_cast<int64_t>(dense.size());
  Collector collector(n, min_magnitude);
  ForEachBlock(executor, n, [&](int64_t, int64_t begin, int64_t end) {
    collector.Look(begin, end, dense.data() + begin);
  });
  return collector.Take();
}

}  // namespace tfcompress
