// A gradient with the memory that compensates it.
#ifndef TFCOMPRESS_CUDA_COMPENSATION_H_
#define TFCOMPRESS_CUDA_COMPENSATION_H_

#include "cuda/dense_vector.h"
#include "cuda/memory_spec.h"

namespace tfcompress {
namespace device {

struct Compensation {
  DenseVector gradient;
  MemorySpec memory;
  DeviceSlot slots[kMaxSlots];  // The first NumSlots(memory) are used.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATION_H_
