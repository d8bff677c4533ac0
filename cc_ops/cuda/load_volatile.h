// Loads of words that other threads change meanwhile.
#ifndef TFCOMPRESS_CUDA_LOAD_VOLATILE_H_
#define TFCOMPRESS_CUDA_LOAD_VOLATILE_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

// Of a word that others change by atomic operations: what it is now, or was a moment ago.
__device__ inline uint32_t LoadVolatile(const uint32_t* word) {
  return *static_cast<const volatile uint32_t*>(word);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LOAD_VOLATILE_H_
