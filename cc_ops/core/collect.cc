#include "core/collect.h"

#include <algorithm>
#include <numeric>

#include "core/float_filter.h"
#include "core/huge_pages.h"

namespace tfcompress {
namespace {

// Elements filtered at a time into buffers that stay in L1.
constexpr int64_t kPieceElements = 1024;
static_assert(kBlockElements % kPieceElements == 0);

// The first slab has room for one element of so many.
constexpr int64_t kElementsPerSlot = 32;

}  // namespace

Collector::Collector(int64_t n, uint32_t min_magnitude)
    : min_magnitude_(min_magnitude),
      next_slab_size_(static_cast<size_t>(std::max(n / kElementsPerSlot, kPieceElements))),
      pieces_(static_cast<size_t>(NumBlocks(n, kPieceElements))) {}

void Collector::Look(int64_t begin, int64_t end, const float* values) {
  const FloatFilter filter = FloatFilter::AtLeast(min_magnitude_);
  uint32_t found[kPieceElements];
  float found_values[kPieceElements];
  for (; begin < end; begin += kPieceElements, values += kPieceElements) {
    const int64_t size = std::min(end - begin, kPieceElements);
    const int64_t count = filter(values, size, static_cast<uint32_t>(begin), found, found_values);
    Piece& piece = pieces_[begin / kPieceElements];
    if (count == size) {
      piece = {static_cast<size_t>(count), nullptr, values};
    } else if (count > 0) {
      piece = Keep(found, found_values, static_cast<size_t>(count));
    }
  }
}

Collector::Piece Collector::Keep(const uint32_t* indices, const float* values, size_t count) {
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
  std::copy_n(indices, count, slab->indices.get() + begin);
  std::copy_n(values, count, slab->values.get() + begin);
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
  uint32_t of_whole_piece[kPieceElements];
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const uint32_t* indices = piece.indices;
    if (indices == nullptr) {
      indices = of_whole_piece;
      std::iota(of_whole_piece, of_whole_piece + piece.count,
                static_cast<uint32_t>(i * kPieceElements));
    }
    all.indices.insert(all.indices.end(), indices, indices + piece.count);
    all.values.insert(all.values.end(), piece.values, piece.values + piece.count);
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
