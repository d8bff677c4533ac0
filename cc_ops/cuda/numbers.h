// Values of sections of numbers of fixed width: raw, fp16, bf16.
#ifndef TFCOMPRESS_CUDA_NUMBERS_H_
#define TFCOMPRESS_CUDA_NUMBERS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/value/half_formats.h"
#include "cuda/dense_vector.h"
#include "cuda/raw_bytes.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

// Writes the i-th value of a section and returns what it decodes to.
__device__ inline float EncodeNumber(ValueKind kind, float value, uint64_t i,
                                     unsigned char* section) {
  if (kind == ValueKind::kRaw) {
    StoreAt(section, i, FloatBits(value));
    return value;
  }
  const bool is_fp16 = kind == ValueKind::kFp16;
  const uint16_t half = is_fp16 ? SaturateHalf(NarrowHalf(value)) : SaturatingBFloat16(value);
  StoreAt(section, i, half);
  return is_fp16 ? WidenHalf(half) : BFloat16ToFloat(half);
}

// Reads the i-th value of a section, which is untrusted: it may be NaN or Inf.
__device__ inline float DecodeNumber(ValueKind kind, const unsigned char* section, uint64_t i) {
  if (kind == ValueKind::kRaw) return FloatFromBits(LoadAt<uint32_t>(section, i));
  const auto half = LoadAt<uint16_t>(section, i);
  return kind == ValueKind::kFp16 ? WidenHalf(half) : BFloat16ToFloat(half);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_NUMBERS_H_
