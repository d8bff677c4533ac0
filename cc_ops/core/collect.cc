#include "core/collect.h"

#include <algorithm>
#include <numeric>

#include "core/float_filter.h"
#include "core/huge_pages.h"

namespace tfcompress {
namespace {

// The first slab has room for one element of so many.
constexpr int64_t kElementsPerSlot = 32;

}  // namespace

Collector::Collector(int64_t n, uint32_t min_magnitude)
    : min_magnitude_(min_magnitude),
      next_slab_size_(static_cast<size_t>(std::max(n / kElementsPerSlot, kChunk))),
      pieces_(static_cast<size_t>(NumBlocks(n, kChunk))) {}

FloatFilter Collector::filter() const { return FloatFilter::AtLeast(min_magnitude_); }

void Collector::Keep(int64_t begin, int64_t end, const float* values, const FloatList& found) {
  if (found.count == end - begin) {
    pieces_[begin / kChunk] = {static_cast<size_t>(found.count), nullptr, values};
  } else if (found.count > 0) {
    pieces_[begin / kChunk] = Copy(found);
  }
}

Collector::Piece Collector::Copy(const FloatList& found) {
  const auto count = static_cast<size_t>(found.count);
  Slab* slab = nullptr;
  size_t begin = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (num_free_ < count) {
      num_free_ = next_slab_size_;
      next_slab_size_ *= 2;
      slabs_.push_back({std::unique_ptr<uint32_t[]>(new uint32_t[num_free_]),
                        std::unique_ptr<float[]>(new float[num_free_])});
    }
    num_free_ -= count;
    slab = &slabs_.back();
    begin = num_free_;
  }
  std::copy_n(found.found, count, slab->indices.get() + begin);
  std::copy_n(found.values, count, slab->values.get() + begin);
  return {count, slab->indices.get() + begin, slab->values.get() + begin};
}

size_t Collector::size() const {
  size_t size = 0;
  for (const Piece& piece : pieces_) size += piece.count;
  return size;
}

Candidates Collector::Take() {
  Candidates all;
  ReserveHuge(size(), &all.indices);
  ReserveHuge(size(), &all.values);
  uint32_t of_whole_piece[kChunk];
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const uint32_t* indices = piece.indices;
    if (indices == nullptr) {
      indices = of_whole_piece;
      std::iota(of_whole_piece, of_whole_piece + piece.count, static_cast<uint32_t>(i * kChunk));
    }
    all.indices.insert(all.indices.end(), indices, indices + piece.count);
    all.values.insert(all.values.end(), piece.values, piece.values + piece.count);
  }
  return all;
}

Candidates CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor) {
  const auto n = static_cast<int64_t>(dense.size());
  Collector collector(n, min_magnitude);
  ForEachChunk(executor, n, Collector::kChunk, [&](int64_t begin, int64_t end) {
    uint32_t found[Collector::kChunk];
    float values[Collector::kChunk];
    FloatList list{collector.filter(), found, values};
    ListThose(dense.data() + begin, end - begin, static_cast<uint32_t>(begin), &list);
    collector.Keep(begin, end, dense.data() + begin, list);
  });
  return collector.Take();
}

}  // namespace tfcompress
