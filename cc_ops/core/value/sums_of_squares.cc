#include "core/value/sums_of_squares.h"

#include "core/float_order.h"
#include "core/simd.h"
#include "core/value/block_statistics.h"

#ifdef TFC_HAS_X86_SIMD
#include <immintrin.h>
#endif

namespace tfcompress {
namespace {

#ifdef TFC_HAS_X86_SIMD

// The lanes of SumTerms for each run; `size` is a multiple of 4. A compiler makes no such code: it
// has the runs, not the lanes, in one register, and collects their values one by one.
TFC_AVX2 void SumLanes(const float* values, int64_t run_size, int64_t size, Subnormals subnormals,
                       double (*lanes)[4]) {
  const __m128i exponent = _mm_set1_epi32(static_cast<int>(kFloatInfinityBits));
  const __m128i none = _mm_set1_epi32(subnormals == Subnormals::kZero ? 0 : -1);
  __m256d sums[kSumRuns] = {};
  for (int64_t i = 0; i < size; i += 4) {
    for (int run = 0; run < kSumRuns; ++run) {
      const __m128 x = _mm_loadu_ps(values + run * run_size + i);
      const __m128i zero = _mm_cmpeq_epi32(_mm_and_si128(_mm_castps_si128(x), exponent), none);
      const __m256d wide = _mm256_cvtps_pd(_mm_andnot_ps(_mm_castsi128_ps(zero), x));
      sums[run] = _mm256_add_pd(sums[run], _mm256_mul_pd(wide, wide));
    }
  }
  for (int run = 0; run < kSumRuns; ++run) _mm256_storeu_pd(lanes[run], sums[run]);
}

#endif  // TFC_HAS_X86_SIMD

double Square(float value, Subnormals subnormals) {
  const double wide = subnormals == Subnormals::kZero ? NormalOrZero(value) : double{value};
  return wide * wide;
}

}  // namespace

double SumSquares(const float* values, int64_t size, Subnormals subnormals) {
  double sum = 0;
  Vectorized([=, out = &sum] {
    *out = SumTerms(0, size, [=](int64_t i) { return Square(values[i], subnormals); });
  });
  return sum;
}

void SumSquares(const float* values, int64_t run_size, Subnormals subnormals, double* sums) {
#ifdef TFC_HAS_X86_SIMD
  if (CurrentSimd() >= Simd::kAvx2) {
    double lanes[kSumRuns][4];
    const int64_t size = run_size / 4 * 4;
    SumLanes(values, run_size, size, subnormals, lanes);
    for (int run = 0; run < kSumRuns; ++run) {
      for (int64_t i = size; i < run_size; ++i)
        lanes[run][0] += Square(values[run * run_size + i], subnormals);
      sums[run] = (lanes[run][0] + lanes[run][1]) + (lanes[run][2] + lanes[run][3]);
    }
    return;
  }
#endif
  for (int run = 0; run < kSumRuns; ++run)
    sums[run] = SumSquares(values + run * run_size, run_size, subnormals);
}

}  // namespace tfcompress
