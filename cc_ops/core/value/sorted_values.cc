#include "core/value/sorted_values.h"

#include <algorithm>
#include <utility>

#include "core/bit_io.h"
#include "core/value/packed_codes.h"

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

Status GatherRanks(std::vector<float> table, ByteSpan packed, Executor* executor,
                   Span<float> values) {
  const ChunkDecoder decode = DecodeTable(packed, BitsFor(values.size()), std::move(table));
  return ForEachDecodeChunk(values.size(), executor, [&](int64_t begin, int64_t end) {
    return decode(begin, end, values.data() + begin);
  });
}

}  // namespace tfcompress
