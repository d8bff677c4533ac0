// The one place that knows instruction sets. A loop that a codec passes to Vectorized is compiled
// once for each of them, and the processor at hand chooses: bytes are the same with all.
//
// Contraction is off and no sum is reordered, so a compiler can only choose instructions, never
// results.
#ifndef TFCOMPRESS_CORE_SIMD_H_
#define TFCOMPRESS_CORE_SIMD_H_

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define TFC_HAS_X86_SIMD 1
#define TFC_SSE4 __attribute__((target("sse4.2,ssse3,popcnt")))
#define TFC_CRC32C TFC_SSE4
#define TFC_AVX2 __attribute__((target("avx2,bmi,bmi2,f16c,lzcnt,popcnt")))
#ifdef __clang__
#define TFC_VECTOR_WIDTH ""
#else
#define TFC_VECTOR_WIDTH ",prefer-vector-width=512"
#endif
#define TFC_AVX512                                                        \
  __attribute__((                                                         \
      target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi,bmi2," \
             "f16c,lzcnt,popcnt" TFC_VECTOR_WIDTH)))
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define TFC_HAS_ARM_SIMD 1
#define TFC_CRC32C __attribute__((target("+crc")))
#endif

// Before a loop whose iterations touch only elements of their own index, though vectors may be the
// same.
#if defined(__clang__)
#define TFC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TFC_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TFC_INDEPENDENT
#endif

namespace tfcompress {

// Ascending: each has what those of its processor before it have. kBaseline is what the compiler
// may use anywhere: SSE2 on x86-64, NEON on aarch64, to which kArmCrc adds instructions for
// CRC-32C. kSse4 is SSE 4.2, which has them, too.
enum class Simd { kBaseline, kArmCrc, kSse4, kAvx2, kAvx512 };

const char* SimdName(Simd simd);
// The last one that this processor has, or an earlier one that the environment variable TFC_SIMD
// names.
Simd CurrentSimd();

#ifdef TFC_HAS_X86_SIMD
template <typename Body>
TFC_SSE4 __attribute__((flatten)) void RunSse4(Body body) {
  body();
}
template <typename Body>
TFC_AVX2 __attribute__((flatten)) void RunAvx2(Body body) {
  body();
}
template <typename Body>
TFC_AVX512 __attribute__((flatten)) void RunAvx512(Body body) {
  body();
}
#endif

// Calls body() in the widest instructions. All that `body` calls is compiled anew, so it should be
// a plain loop. It captures pointers and numbers by value: what it captured by reference would be
// loaded again after every store of a byte.
template <typename Body>
void Vectorized(Body body) {
#ifdef TFC_HAS_X86_SIMD
  switch (CurrentSimd()) {
    case Simd::kAvx512:
      return RunAvx512(body);
    case Simd::kAvx2:
      return RunAvx2(body);
    case Simd::kSse4:
      return RunSse4(body);
    default:
      break;
  }
#endif
  body();
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SIMD_H_
