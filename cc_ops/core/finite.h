// Read-only passes over a computed vector: checks that all elements are finite, and finds the
// largest magnitude.
#ifndef TFCOMPRESS_CORE_FINITE_H_
#define TFCOMPRESS_CORE_FINITE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/executor.h"
#include "core/float_order.h"
#include "core/simd.h"
#include "core/span.h"

namespace tfcompress {

// Whether all values are finite, on the calling thread: of a chunk, or of a block.
inline bool AllFinite(Span<const float> values) {
  uint32_t any_bad = 0;
  Vectorized([x = values.data(), count = values.size(), out = &any_bad] {
    uint32_t bad = 0;
    for (size_t i = 0; i < count; ++i) bad |= !IsFiniteBits(FloatBits(x[i]));
    *out = bad;
  });
  return any_bad == 0;
}

// The same of a whole vector, by the executor.
inline bool AllFinite(Span<const float> values, Executor* executor) {
  std::atomic<bool> finite{true};
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    if (!AllFinite(values.subspan(begin, end - begin))) finite = false;
  });
  return finite;
}

// The largest MagnitudeBits of all values, 0 if there are none.
inline uint32_t MaxMagnitude(Span<const float> values, Executor* executor) {
  std::atomic<int32_t> max{0};
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    int32_t of_block = 0;
    Vectorized([=, x = values.data(), out = &of_block] {
      int32_t largest = 0;  // Signed integers are what every vector unit compares.
      for (int64_t i = begin; i < end; ++i)
        largest = std::max(largest, static_cast<int32_t>(MagnitudeBits(x[i])));
      *out = largest;
    });
    int32_t known = max;
    while (known < of_block && !max.compare_exchange_weak(known, of_block)) {
    }
  });
  return static_cast<uint32_t>(max.load());
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FINITE_H_
