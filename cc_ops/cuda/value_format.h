// The value codecs that turn each element into a number of fixed width: raw, fp16, bf16.
#ifndef TFCOMPRESS_CUDA_VALUE_FORMAT_H_
#define TFCOMPRESS_CUDA_VALUE_FORMAT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "core/value/half_formats.h"
#include "cuda/raw_bytes.h"

namespace tfcompress {
namespace device {

enum class ValueFormat { kRaw, kFp16, kBf16 };

TFC_HOST_DEVICE inline uint32_t ValueBytes(ValueFormat format) {
  return format == ValueFormat::kRaw ? 4 : 2;
}

// Writes the i-th value of a section and returns what it decodes to.
__device__ inline float EncodeValue(ValueFormat format, float value, uint64_t i,
                                    unsigned char* section) {
  if (format == ValueFormat::kRaw) {
    StoreAt(section, i, FloatBits(value));
    return value;
  }
  const bool is_fp16 = format == ValueFormat::kFp16;
  const uint16_t half = is_fp16 ? SaturatingHalf(value) : SaturatingBFloat16(value);
  StoreAt(section, i, half);
  return is_fp16 ? HalfToFloat(half) : BFloat16ToFloat(half);
}

// Reads the i-th value of a section; it may be anything, also not finite.
__device__ inline float DecodeValue(ValueFormat format, const unsigned char* section, uint64_t i) {
  if (format == ValueFormat::kRaw) return FloatFromBits(LoadAt<uint32_t>(section, i));
  const auto half = LoadAt<uint16_t>(section, i);
  return format == ValueFormat::kFp16 ? HalfToFloat(half) : BFloat16ToFloat(half);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUE_FORMAT_H_
