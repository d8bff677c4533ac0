#include "core/simd.h"

#include <cstdlib>
#include <cstring>

#if defined(TFC_HAS_ARM_SIMD) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tfcompress {
namespace {

constexpr Simd kAll[] = {Simd::kBaseline, Simd::kArmCrc, Simd::kSse4, Simd::kAvx2, Simd::kAvx512};

bool IsSupported(Simd simd) {
#ifdef TFC_HAS_X86_SIMD
  switch (simd) {
    case Simd::kBaseline:
      return true;
    case Simd::kArmCrc:
      return false;
    case Simd::kSse4:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
             __builtin_cpu_supports("popcnt");
    case Simd::kAvx2:
      // Every processor with AVX2 and BMI2 has F16C and LZCNT, for which not every compiler tests.
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    case Simd::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  }
#endif
#if defined(TFC_HAS_ARM_SIMD) && defined(__linux__)
  if (simd == Simd::kArmCrc) return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#elif defined(TFC_HAS_ARM_SIMD) && defined(__APPLE__)
  if (simd == Simd::kArmCrc) return true;
#endif
  return simd == Simd::kBaseline;
}

Simd Choose() {
  const char* name = std::getenv("TFC_SIMD");
  Simd last = Simd::kBaseline;
  for (Simd simd : kAll) {
    if (IsSupported(simd)) last = simd;
    if (name != nullptr && std::strcmp(name, SimdName(simd)) == 0) break;
  }
  return last;
}

}  // namespace

const char* SimdName(Simd simd) {
  constexpr const char* kNames[] = {"baseline", "arm_crc", "sse4", "avx2", "avx512"};
  return kNames[static_cast<int>(simd)];
}

Simd CurrentSimd() {
  static const Simd current = Choose();
  return current;
}

}  // namespace tfcompress
