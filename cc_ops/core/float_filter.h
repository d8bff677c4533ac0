// Listing the floats of a chunk whose bits are in a range, right after they were made, in the
// widest instructions at hand.
#ifndef TFCOMPRESS_CORE_FLOAT_FILTER_H_
#define TFCOMPRESS_CORE_FLOAT_FILTER_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/simd.h"

#ifdef TFC_HAS_X86_SIMD
#include <immintrin.h>
#endif

namespace tfcompress {

struct FloatFilter {
  // Elements with |x| >= y, where `magnitude` are the bits of y; all elements for 0.
  static FloatFilter AtLeast(uint32_t magnitude) { return {kFloatMagnitudeBits, 0, magnitude}; }
  // Elements with x <= |y| < z, of bits below 2^31.
  static FloatFilter Between(uint32_t first, uint32_t end) {
    // Which are moved to the end of all numbers.
    return {kFloatMagnitudeBits, 0 - end, first - end};
  }
  // Elements that are negative, or that are not (-0 is not).
  static FloatFilter OfSign(uint32_t sign) {
    // Numbers that are not negative: bits 0 to 2^31, which are moved to the end of all.
    constexpr uint32_t kRest = kFloatSignBit - 1;
    return sign == 0 ? FloatFilter{~0u, kRest, kRest} : FloatFilter{~0u, 0, kFloatSignBit + 1};
  }

  uint32_t Shifted(float value) const { return (FloatBits(value) & mask) + shift; }
  bool Passes(float value) const { return Shifted(value) >= least; }

  // An element passes if its bits, masked and shifted modulo 2^32, are not below `least`.
  uint32_t mask;
  uint32_t shift;
  uint32_t least;
};

// Where elements that pass go. What a list writes beyond `count` is superfluous: it stays within as
// many elements as were looked at. So `values` may be those very elements, or others before them.
struct FloatList {
  FloatFilter filter;
  uint32_t* found;  // Their numbers.
  float* values;
  int64_t count = 0;
};

namespace float_filter {

// Elements made at a time: few enough for registers or L1, many enough for a loop over vectors.
inline constexpr int64_t kGroup = 64;

// Each appends the elements of values[begin, end) that pass, element i as first + i, and says
// whether all are finite. All write first and count after, without a branch for each element.
inline bool AppendOneByOne(const float* values, int64_t begin, int64_t end, uint32_t first,
                           FloatList* list) {
  const FloatFilter filter = list->filter;
  int64_t count = list->count;
  uint32_t bad = 0;
  for (int64_t i = begin; i < end; ++i) {
    list->found[count] = first + static_cast<uint32_t>(i);
    list->values[count] = values[i];
    count += filter.Passes(values[i]);
    bad |= !IsFiniteBits(FloatBits(values[i]));
  }
  list->count = count;
  return bad == 0;
}

// For compilers that make vector code of comparisons, and none of the rest: a group none of whose
// elements passes is left out.
inline bool AppendGroup(const float* values, int64_t begin, uint32_t first, FloatList* list) {
  const FloatFilter filter = list->filter;
  // Whether an element passes, in signed numbers, which every vector unit compares.
  const auto below = static_cast<int32_t>((filter.least - 1) ^ kFloatSignBit);
  int32_t passes = filter.least == 0;
  uint32_t bad = 0;
  for (int64_t i = begin; i < begin + kGroup; ++i) {
    passes |= static_cast<int32_t>(filter.Shifted(values[i]) ^ kFloatSignBit) > below ? -1 : 0;
    bad |= !IsFiniteBits(FloatBits(values[i]));
  }
  if (passes != 0) AppendOneByOne(values, begin, begin + kGroup, first, list);
  return bad == 0;
}

#ifdef TFC_HAS_X86_SIMD

// For each mask of 8 lanes, the numbers of its set lanes, one a byte, in front.
struct SetLanes {
  constexpr SetLanes() {
    for (uint64_t mask = 0; mask < 256; ++mask) {
      int count = 0;
      for (uint64_t lane = 0; lane < 8; ++lane) {
        if (mask >> lane & 1) of[mask] |= lane << (8 * count++);
      }
    }
  }
  uint64_t of[256] = {};
};
inline constexpr SetLanes kSetLanes;

template <typename Make>
TFC_AVX2 __attribute__((flatten)) bool MakeAvx2(const Make& make, const float* values, int64_t size,
                                                uint32_t first, FloatList* list) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(list->filter.mask));
  const __m256i shift = _mm256_set1_epi32(static_cast<int>(list->filter.shift));
  const __m256i least = _mm256_set1_epi32(static_cast<int>(list->filter.least));
  const __m256i infinity = _mm256_set1_epi32(static_cast<int>(kFloatInfinityBits));
  __m256i bad = _mm256_setzero_si256();
  uint32_t* const found = list->found;
  float* const found_values = list->values;
  int64_t count = list->count;
  int64_t i = 0;
  for (; i + kGroup <= size; i += kGroup) {
    make(i, i + kGroup);
    for (int64_t j = i; j < i + kGroup; j += 8) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + j));
      bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(bits, infinity), infinity));
      const __m256i shifted = _mm256_add_epi32(_mm256_and_si256(bits, mask), shift);
      const __m256i passes = _mm256_cmpeq_epi32(_mm256_max_epu32(shifted, least), shifted);
      const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(passes)));
      const __m256i lanes =
          _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kSetLanes.of[set])));
      const auto index = static_cast<int>(first + static_cast<uint32_t>(j));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + count),
                          _mm256_add_epi32(lanes, _mm256_set1_epi32(index)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(found_values + count),
                          _mm256_permutevar8x32_epi32(bits, lanes));
      count += __builtin_popcount(set);
    }
  }
  list->count = count;
  make(i, size);
  return AppendOneByOne(values, i, size, first, list) && _mm256_testz_si256(bad, bad);
}

template <typename Make>
TFC_AVX512 __attribute__((flatten)) bool MakeAvx512(const Make& make, const float* values,
                                                    int64_t size, uint32_t first, FloatList* list) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(list->filter.mask));
  const __m512i shift = _mm512_set1_epi32(static_cast<int>(list->filter.shift));
  const __m512i least = _mm512_set1_epi32(static_cast<int>(list->filter.least));
  const __m512i infinity = _mm512_set1_epi32(static_cast<int>(kFloatInfinityBits));
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __mmask16 bad = 0;
  uint32_t* const found = list->found;
  float* const found_values = list->values;
  int64_t count = list->count;
  int64_t i = 0;
  for (; i + kGroup <= size; i += kGroup) {
    make(i, i + kGroup);
    for (int64_t j = i; j < i + kGroup; j += 16) {
      const __m512i bits = _mm512_loadu_si512(values + j);
      bad |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, infinity), infinity);
      const __m512i shifted = _mm512_add_epi32(_mm512_and_si512(bits, mask), shift);
      const __mmask16 set = _mm512_cmpge_epu32_mask(shifted, least);
      const auto index = static_cast<int>(first + static_cast<uint32_t>(j));
      const __m512i indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(index));
      // To a register and then to memory: some processors compress to memory slowly.
      _mm512_storeu_si512(found + count, _mm512_maskz_compress_epi32(set, indices));
      _mm512_storeu_si512(found_values + count, _mm512_maskz_compress_epi32(set, bits));
      count += __builtin_popcount(set);
    }
  }
  list->count = count;
  make(i, size);
  return AppendOneByOne(values, i, size, first, list) && bad == 0;
}

#endif

}  // namespace float_filter

// Makes `size` elements: make(i), inlined, returns element i and leaves it in values[i], if it is
// not there already. Lists those that pass, element i as first + i, unless `list` is null. Says
// whether all are finite.
template <typename Make>
bool MakeElements(const Make& make, const float* values, int64_t size, uint32_t first,
                  FloatList* list) {
  bool finite = true;
  if (list == nullptr) {
    Vectorized([=, out = &finite] {
      uint32_t bad = 0;
      TFC_INDEPENDENT
      for (int64_t i = 0; i < size; ++i) bad |= !IsFiniteBits(FloatBits(make(i)));
      *out = bad == 0;
    });
    return finite;
  }
  const auto make_range = [=](int64_t begin, int64_t end) {
    TFC_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) make(i);
  };
#ifdef TFC_HAS_X86_SIMD
  if (CurrentSimd() == Simd::kAvx512)
    return float_filter::MakeAvx512(make_range, values, size, first, list);
  if (CurrentSimd() == Simd::kAvx2)
    return float_filter::MakeAvx2(make_range, values, size, first, list);
#endif
  Vectorized([=, out = &finite] {
    bool all = true;
    int64_t i = 0;
    for (; i + float_filter::kGroup <= size; i += float_filter::kGroup) {
      make_range(i, i + float_filter::kGroup);
      all &= float_filter::AppendGroup(values, i, first, list);
    }
    make_range(i, size);
    *out = float_filter::AppendOneByOne(values, i, size, first, list) && all;
  });
  return finite;
}

// Lists those of `size` elements that pass, and exist already.
inline void ListThose(const float* values, int64_t size, uint32_t first, FloatList* list) {
  MakeElements([=](int64_t i) { return values[i]; }, values, size, first, list);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FLOAT_FILTER_H_
