// A check of indices and keys off the wire.
#ifndef TFCOMPRESS_CORE_STRICTLY_INCREASING_H_
#define TFCOMPRESS_CORE_STRICTLY_INCREASING_H_

#include <cstdint>

#include "core/simd.h"
#include "core/span.h"

namespace tfcompress {

// Whether each key is above the one before it. If keys are a running sum modulo 2^32 of 32-bit
// deltas, none of these is then zero, and no sum wraps.
inline bool StrictlyIncreasing(Span<const uint32_t> keys) {
  bool increasing = true;
  Vectorized([x = keys.data(), size = keys.size(), out = &increasing] {
    uint32_t falls = 0;
    for (size_t i = 1; i < size; ++i) falls |= x[i] <= x[i - 1];
    *out = falls == 0;
  });
  return increasing;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_STRICTLY_INCREASING_H_
