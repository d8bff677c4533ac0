// Conversion of indices to TensorFlow's 64-bit integers.
#ifndef TFCOMPRESS_CUDA_WIDE_INDICES_H_
#define TFCOMPRESS_CUDA_WIDE_INDICES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"

namespace tfcompress {
namespace device {

// Overwrites wide_dev with the `count` indices as int64.
Status WidenIndices(const uint32_t* indices_dev, uint64_t count, int64_t* wide_dev,
                    cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_WIDE_INDICES_H_
