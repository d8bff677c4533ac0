// What the memory's slots lose where an element is sent.
#ifndef TFCOMPRESS_CUDA_SENT_SLOTS_H_
#define TFCOMPRESS_CUDA_SENT_SLOTS_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

// The residual at the indices that receivers will decode.
struct SentResidual {
  float* data_dev;              // Null: there is no memory.
  const uint32_t* indices_dev;  // Null: all elements.

  // Takes out what the i-th value decodes to.
  __device__ void TakeOut(uint64_t i, float decoded) const {
    if (data_dev != nullptr) data_dev[indices_dev == nullptr ? i : indices_dev[i]] -= decoded;
  }
};

struct SentSlots {
  float* residual;  // Null: there is no memory.
  float* velocity;  // Null: it keeps none.

  // Takes out what receivers decode of element i; `masks`: its velocity is stale.
  __device__ void TakeOut(uint64_t i, float decoded, bool masks) const {
    residual[i] -= decoded;
    if (masks && velocity != nullptr) velocity[i] = 0;
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SENT_SLOTS_H_
