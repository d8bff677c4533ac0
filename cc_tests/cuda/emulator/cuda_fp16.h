// The part of CUDA's binary16 that the sources of cc_ops/cuda use; see cuda_runtime.h.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_FP16_H_
#define TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_FP16_H_

#include <cstdint>
#include <cstring>

using __half = _Float16;

inline __half __ushort_as_half(uint16_t bits) {
  __half half;
  std::memcpy(&half, &bits, sizeof(half));
  return half;
}
inline uint16_t __half_as_ushort(__half half) {
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof(bits));
  return bits;
}
inline float __half2float(__half half) { return static_cast<float>(half); }
// A device makes one of all NaN.
inline __half __float2half_rn(float value) {
  return value == value ? static_cast<__half>(value) : __ushort_as_half(0x7FFF);
}

#endif  // TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_FP16_H_
