// The part of CUDA's binary16 that the sources of cc_ops/cuda use; see cuda_runtime.h.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_FP16_H_
#define TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_FP16_H_

#include <cstdint>

#include "core/half.h"

struct __half {
  uint16_t bits;
};

inline __half __ushort_as_half(uint16_t bits) { return {bits}; }
inline float __half2float(__half half) { return tfcompress::HalfToFloat(half.bits); }

#endif  // TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_FP16_H_
