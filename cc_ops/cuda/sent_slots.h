// Subtraction of sent elements from the memory's slots.
#ifndef TFCOMPRESS_CUDA_SENT_SLOTS_H_
#define TFCOMPRESS_CUDA_SENT_SLOTS_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

// The residual, with the indices that receivers will decode.
struct SentResidual {
  float* data_dev;              // Null if there is no memory.
  const uint32_t* indices_dev;  // Null if all elements are sent.

  // Subtracts the decoded i-th value.
  __device__ void TakeOut(uint64_t i, float decoded) const {
    if (data_dev != nullptr) data_dev[indices_dev == nullptr ? i : indices_dev[i]] -= decoded;
  }
};

struct SentSlots {
  float* residual;  // Null if there is no memory.
  float* velocity;  // Null if the memory has none.

  // Subtracts the decoded value of element i; with `masks`, clears its stale velocity, too.
  __device__ void TakeOut(uint64_t i, float decoded, bool masks) const {
    residual[i] -= decoded;
    if (masks && velocity != nullptr) velocity[i] = 0;
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SENT_SLOTS_H_
