#include "core/merge_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/bit_io.h"
#include "core/radix_sort.h"

namespace tfcompress {

SparseRows GatherRows(const SparseRows& rows, std::vector<uint32_t> ids, uint64_t width,
                      Executor* executor) {
  SparseRows gathered = {std::move(ids), {}};
  gathered.values.resize(gathered.ids.size() * width);
  if (rows.ids.empty()) return gathered;
  ForEachRowBlock(executor, gathered.ids.size(), width, [&](int64_t begin, int64_t end) {
    auto found = std::lower_bound(rows.ids.begin(), rows.ids.end(), gathered.ids[begin]);
    for (int64_t i = begin; i < end; ++i) {
      while (found != rows.ids.end() && *found < gathered.ids[i]) ++found;
      if (found == rows.ids.end()) return;
      if (*found != gathered.ids[i]) continue;
      const float* values = rows.values.data() + (found - rows.ids.begin()) * width;
      std::copy_n(values, width, gathered.values.data() + i * width);
    }
  });
  return gathered;
}

void AddRows(Span<const uint32_t> ids, Span<const float> values, uint64_t width, uint64_t num_rows,
             float scale, Executor* executor, SparseRows* sum) {
  // A stable sort keeps the slices of a row in their order.
  std::vector<uint64_t> slices(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) slices[i] = PackItem(ids[i], static_cast<uint32_t>(i));
  RadixSort(32, BitsFor(num_rows), executor, &slices);

  std::vector<uint32_t> rows;
  std::vector<size_t> first;  // Of each row among the sorted slices.
  for (size_t i = 0; i < slices.size(); ++i) {
    const uint32_t id = ItemKey(slices[i]);
    if (!rows.empty() && id == rows.back()) continue;
    rows.push_back(id);
    first.push_back(i);
  }
  first.push_back(slices.size());

  std::vector<uint32_t> all;
  all.reserve(sum->ids.size() + rows.size());
  std::set_union(sum->ids.begin(), sum->ids.end(), rows.begin(), rows.end(),
                 std::back_inserter(all));
  if (all.size() > sum->ids.size()) *sum = GatherRows(*sum, std::move(all), width, executor);
  ForEachRowBlock(executor, rows.size(), width, [&](int64_t begin, int64_t end) {
    auto found = std::lower_bound(sum->ids.begin(), sum->ids.end(), rows[begin]);
    for (int64_t row = begin; row < end; ++row) {
      while (*found != rows[row]) ++found;
      float* target = sum->values.data() + (found - sum->ids.begin()) * width;
      for (size_t i = first[row]; i < first[row + 1]; ++i) {
        const float* slice = values.data() + ItemPayload(slices[i]) * width;
        for (uint64_t column = 0; column < width; ++column) target[column] += scale * slice[column];
      }
    }
  });
}

SparseRows ToRows(const SparseTensor& elements, uint32_t width) {
  SparseRows rows;
  const Support support = elements.support();
  for (size_t i = 0; i < support.size(); ++i) {
    const uint32_t id = support[i] / width;
    if (rows.ids.empty() || rows.ids.back() != id) {
      rows.ids.push_back(id);
      rows.values.resize(rows.values.size() + width);
    }
    rows.values[rows.values.size() - width + support[i] % width] = elements.values[i];
  }
  return rows;
}

}  // namespace tfcompress
