// A dense vector for kernels to read.
#ifndef TFCOMPRESS_CUDA_DENSE_VECTOR_H_
#define TFCOMPRESS_CUDA_DENSE_VECTOR_H_

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "core/dtype.h"
#include "core/half.h"

namespace tfcompress {
namespace device {

// Widening of binary16 by the hardware's instruction. It has the values of the core's HalfToFloat;
// the bits of a NaN may be others, so that only its class may be looked at.
__device__ inline float WidenHalf(uint16_t half) { return __half2float(__ushort_as_half(half)); }
// As FloatToHalf.
__device__ inline uint16_t NarrowHalf(float value) {
  if (value == value) return __half_as_ushort(__float2half_rn(value));
  return static_cast<uint16_t>(FloatBits(value) >> 16 & 0x8000u) | 0x7E00u;
}

// Elements of any type, widened as they are read.
struct DenseVector {
  const void* data_dev;
  DType dtype;
  uint32_t n;

  __device__ float At(uint32_t i) const {
    if (dtype == DType::kFloat32) return static_cast<const float*>(data_dev)[i];
    const uint16_t half = static_cast<const uint16_t*>(data_dev)[i];
    return dtype == DType::kFloat16 ? WidenHalf(half) : BFloat16ToFloat(half);
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DENSE_VECTOR_H_
