#include "core/float_filter.h"

#include <array>

#include "core/simd.h"

#ifdef TFC_HAS_X86_SIMD
#include <immintrin.h>
#endif

namespace tfcompress {
namespace {

// All write first and count after, without a branch for each element: before element i, at most i
// are found, so that superfluous writes stay within `size` elements.
using List = int64_t (*)(const FloatFilter& filter, const float* values, int64_t size,
                         uint32_t first, uint32_t* found, float* found_values);

// Elements that are compared at once and left out if none passes. The compiler makes vector code of
// that, also for NEON.
constexpr int64_t kGroup = 32;

int64_t ListScalar(const FloatFilter& filter, const float* values, int64_t size, uint32_t first,
                   uint32_t* found, float* found_values) {
  const FloatFilter own = filter;
  int64_t count = 0;
  const auto list = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      found[count] = first + static_cast<uint32_t>(i);
      found_values[count] = values[i];
      count += own.Passes(values[i]);
    }
  };
  // Whether an element passes, in signed numbers, which every vector unit compares.
  const auto below = static_cast<int32_t>((own.least - 1) ^ kFloatSignBit);
  const auto any_passes = [&](int64_t begin) {
    int32_t passes = own.least == 0;
    for (int64_t i = begin; i < begin + kGroup; ++i)
      passes |= static_cast<int32_t>(own.Shifted(values[i]) ^ kFloatSignBit) > below ? -1 : 0;
    return passes != 0;
  };
  int64_t i = 0;
  for (; i + kGroup <= size; i += kGroup) {
    if (any_passes(i)) list(i, i + kGroup);
  }
  list(i, size);
  return count;
}

#ifdef TFC_HAS_X86_SIMD

// For each mask of 8 lanes, the numbers of its set lanes, one a byte, in front.
constexpr std::array<uint64_t, 256> MakeSetLanes() {
  std::array<uint64_t, 256> table{};
  for (uint64_t mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (uint64_t lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) table[mask] |= lane << (8 * count++);
    }
  }
  return table;
}
constexpr std::array<uint64_t, 256> kSetLanes = MakeSetLanes();

TFC_AVX2 int64_t ListAvx2(const FloatFilter& filter, const float* values, int64_t size,
                          uint32_t first, uint32_t* found, float* found_values) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(filter.mask));
  const __m256i shift = _mm256_set1_epi32(static_cast<int>(filter.shift));
  const __m256i least = _mm256_set1_epi32(static_cast<int>(filter.least));
  int64_t count = 0;
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i));
    const __m256i shifted = _mm256_add_epi32(_mm256_and_si256(bits, mask), shift);
    const __m256i passes = _mm256_cmpeq_epi32(_mm256_max_epu32(shifted, least), shifted);
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(passes)));
    const __m256i lanes =
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kSetLanes[set])));
    const auto index = static_cast<int>(first + static_cast<uint32_t>(i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + count),
                        _mm256_add_epi32(lanes, _mm256_set1_epi32(index)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found_values + count),
                        _mm256_permutevar8x32_epi32(bits, lanes));
    count += __builtin_popcount(set);
  }
  return count + ListScalar(filter, values + i, size - i, first + static_cast<uint32_t>(i),
                            found + count, found_values + count);
}

TFC_AVX512 int64_t ListAvx512(const FloatFilter& filter, const float* values, int64_t size,
                              uint32_t first, uint32_t* found, float* found_values) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(filter.mask));
  const __m512i shift = _mm512_set1_epi32(static_cast<int>(filter.shift));
  const __m512i least = _mm512_set1_epi32(static_cast<int>(filter.least));
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t count = 0;
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const __m512i bits = _mm512_loadu_si512(values + i);
    const __m512i shifted = _mm512_add_epi32(_mm512_and_si512(bits, mask), shift);
    const __mmask16 set = _mm512_cmpge_epu32_mask(shifted, least);
    if (set == 0) continue;
    const auto index = static_cast<int>(first + static_cast<uint32_t>(i));
    const __m512i indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(index));
    // To a register and then to memory: some processors compress to memory slowly.
    _mm512_storeu_si512(found + count, _mm512_maskz_compress_epi32(set, indices));
    _mm512_storeu_si512(found_values + count, _mm512_maskz_compress_epi32(set, bits));
    count += __builtin_popcount(set);
  }
  return count + ListScalar(filter, values + i, size - i, first + static_cast<uint32_t>(i),
                            found + count, found_values + count);
}

#endif

List FastestList() {
#ifdef TFC_HAS_X86_SIMD
  if (CurrentSimd() >= Simd::kAvx512) return ListAvx512;
  if (CurrentSimd() >= Simd::kAvx2) return ListAvx2;
#endif
  return ListScalar;
}

}  // namespace

int64_t FloatFilter::operator()(const float* values, int64_t size, uint32_t first, uint32_t* found,
                                float* found_values) const {
  static const List list = FastestList();
  return list(*this, values, size, first, found, found_values);
}

}  // namespace tfcompress
