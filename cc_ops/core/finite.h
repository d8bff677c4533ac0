// Read-only passes over a computed vector: checks that all elements are finite, and finds the
// largest magnitude.
#ifndef TFCOMPRESS_CORE_FINITE_H_
#define TFCOMPRESS_CORE_FINITE_H_

#include <atomic>
#include <cstdint>

#include "core/executor.h"
#include "core/float_order.h"
#include "core/simd.h"

namespace tfcompress {

inline bool AllFinite(const float* values, int64_t count) {
  uint32_t any_bad = 0;
  Vectorized([=, out = &any_bad] {
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; ++i) bad |= !IsFiniteBits(FloatBits(values[i]));
    *out = bad;
  });
  return any_bad == 0;
}

// Whether element(0) ... element(n - 1), floats, are all finite. `element` captures by value.
template <typename Element>
bool AllFinite(Executor* executor, int64_t n, const Element& element) {
  std::atomic<bool> finite{true};
  ForEachBlock(executor, n, [&](int64_t, int64_t begin, int64_t end) {
    uint32_t any_bad = 0;
    Vectorized([=, out = &any_bad] {
      uint32_t bad = 0;
      for (int64_t i = begin; i < end; ++i) {
        bad |= !IsFiniteBits(FloatBits(element(i)));
      }
      *out = bad;
    });
    if (any_bad) finite = false;
  });
  return finite;
}

// The largest magnitude, as an integer, of element(0) ... element(n - 1); 0 for n = 0.
template <typename Element>
uint32_t MaxMagnitude(Executor* executor, int64_t n, const Element& element) {
  std::atomic<uint32_t> max{0};
  ForEachBlock(executor, n, [&](int64_t, int64_t begin, int64_t end) {
    uint32_t of_block = 0;
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t bits = FloatBits(element(i)) & kFloatMagnitudeBits;
      of_block = bits > of_block ? bits : of_block;
    }
    uint32_t known = max;
    while (known < of_block && !max.compare_exchange_weak(known, of_block)) {
    }
  });
  return max;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FINITE_H_
