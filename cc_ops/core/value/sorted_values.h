// Sorted values and the permutation back, for codecs that fit a curve to them (DeepReduce 5 and
// 5.1). On the wire a value is its rank, ceil(log2 k) bits.
//
// The order: nonnegative values (with -0), then negative ones, each sign by descending magnitude,
// equal ones by position.
#ifndef TFCOMPRESS_CORE_VALUE_SORTED_VALUES_H_
#define TFCOMPRESS_CORE_VALUE_SORTED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/executor.h"
#include "core/radix_sort.h"
#include "core/span.h"
#include "core/status.h"
#include "core/value/sort_key.h"

namespace tfcompress {

inline float MagnitudeOf(uint64_t item) { return MagnitudeOfKey(ItemKey(item)); }

class SortedValues {
 public:
  SortedValues(Span<const float> values, Executor* executor);

  // The values of one sign as items, for MagnitudeOf.
  Span<const uint64_t> nonnegative() const {
    return Span<const uint64_t>(items_).subspan(0, num_nonnegative_);
  }
  Span<const uint64_t> negative() const {
    return Span<const uint64_t>(items_).subspan(num_nonnegative_, items_.size() - num_nonnegative_);
  }

  // Appends the rank of each value, in the order of their positions.
  void WriteRanks(Executor* executor, ByteWriter* writer) const;

 private:
  std::vector<uint64_t> items_;
  size_t num_nonnegative_;
};

// Fills `values` with table[rank]; both have k elements. Accepts ranks that are below k but not a
// permutation, since they give values in range.
Status GatherRanks(std::vector<float> table, ByteSpan packed, Executor* executor,
                   Span<float> values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_SORTED_VALUES_H_
