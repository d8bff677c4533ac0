#include "core/value/sorted_values.h"

#include <algorithm>
#include <atomic>

#include "core/bit_io.h"

namespace tfcompress {
namespace {

bool IsNonnegative(uint64_t item) { return IsNonnegativeKey(ItemKey(item)); }

}  // namespace

SortedValues::SortedValues(Span<const float> values, Executor* executor) : items_(values.size()) {
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      items_[i] = PackItem(SortKey(values[i]), static_cast<uint32_t>(i));
    }
  });
  RadixSortByKey(executor, &items_);
  num_nonnegative_ =
      std::partition_point(items_.begin(), items_.end(), IsNonnegative) - items_.begin();
}

void SortedValues::WriteRanks(Executor* executor, ByteWriter* writer) const {
  std::vector<uint32_t> ranks(items_.size());
  ForEachBlock(executor, items_.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ranks[ItemPayload(items_[i])] = static_cast<uint32_t>(i);
  });
  const int num_bits = BitsFor(items_.size());
  unsigned char* packed = writer->Extend(PackedBytes(items_.size(), num_bits));
  PackBits(ranks, num_bits, executor, packed);
}

Status ReadRanks(size_t k, ByteReader* reader, ByteSpan* packed) {
  TFC_RETURN_IF_ERROR(reader->ReadSpan("ranks", PackedBytes(k, BitsFor(k)), packed));
  return reader->ExpectEnd("ranks");
}

Status GatherRanks(Span<const float> table, ByteSpan packed, Executor* executor,
                   Span<float> values) {
  std::vector<uint32_t> ranks(values.size());
  UnpackBits(packed, BitsFor(values.size()), executor, ranks);
  std::atomic<bool> in_range{true};
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    uint32_t greatest = 0;
    for (int64_t i = begin; i < end; ++i) greatest = std::max(greatest, ranks[i]);
    if (greatest >= table.size()) {
      in_range = false;
      return;
    }
    for (int64_t i = begin; i < end; ++i) values[i] = table[ranks[i]];
  });
  if (!in_range) return DataLoss("a rank is not below ", table.size());
  return OkStatus();
}

}  // namespace tfcompress
