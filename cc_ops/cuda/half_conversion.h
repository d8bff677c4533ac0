// Widening of binary16 by the hardware's instruction. It has the values of the core's HalfToFloat;
// the bits of a NaN may be others, so that only its class may be looked at.
#ifndef TFCOMPRESS_CUDA_HALF_CONVERSION_H_
#define TFCOMPRESS_CUDA_HALF_CONVERSION_H_

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

__device__ inline float WidenHalf(uint16_t half) { return __half2float(__ushort_as_half(half)); }

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_HALF_CONVERSION_H_
