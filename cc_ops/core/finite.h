// Read-only passes over a computed vector: checks that all elements are finite, and finds the
// largest magnitude.
#ifndef TFCOMPRESS_CORE_FINITE_H_
#define TFCOMPRESS_CORE_FINITE_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/executor.h"

namespace tfcompress {

// Whether element(0) ... element(n - 1), floats, are all finite. Branch-free inside a block, so
// that the compiler vectorises it.
template <typename Element>
bool AllFinite(Executor* executor, int64_t n, const Element& element) {
  std::atomic<bool> finite{true};
  ForEachBlock(executor, n, [&](int64_t, int64_t begin, int64_t end) {
    uint32_t any_bad = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float value = element(i);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      any_bad |= (bits & 0x7F800000u) == 0x7F800000u;
    }
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
      const float value = element(i);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      bits &= 0x7FFFFFFFu;
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
