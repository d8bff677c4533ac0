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

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SENT_SLOTS_H_
