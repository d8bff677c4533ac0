#include "core/float_mode.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace tfcompress {
namespace {

#if defined(__SSE2__)

// MXCSR: bits 0 to 5 record exceptions and control nothing.
constexpr uint64_t kControlBits = 0xFFC0;
constexpr uint64_t kDefaultMode = 0x1F80;  // All exceptions masked, everything else 0.

uint64_t ReadMode() { return _mm_getcsr(); }
void WriteMode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }

#elif defined(__aarch64__)

// FPCR: every bit of it controls.
constexpr uint64_t kControlBits = ~uint64_t{0};
constexpr uint64_t kDefaultMode = 0;

uint64_t ReadMode() {
  uint64_t mode;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void WriteMode(uint64_t mode) { __asm__ __volatile__("msr fpcr, %0" : : "r"(mode)); }

#else

// Processors whose threads all run in the default mode.
constexpr uint64_t kControlBits = 0;
constexpr uint64_t kDefaultMode = 0;

uint64_t ReadMode() { return kDefaultMode; }
void WriteMode(uint64_t) {}

#endif

bool IsDefault(uint64_t mode) { return (mode & kControlBits) == kDefaultMode; }

}  // namespace

FloatModeScope::FloatModeScope() : entered_(ReadMode()) {
  if (!IsDefault(entered_)) WriteMode(kDefaultMode);
}

FloatModeScope::~FloatModeScope() {
  if (!IsDefault(entered_)) WriteMode(entered_);
}

}  // namespace tfcompress
