// A gradient with the memory that compensates it.
#ifndef TFCOMPRESS_CUDA_COMPENSATION_H_
#define TFCOMPRESS_CUDA_COMPENSATION_H_

#include "core/host_device.h"
#include "cuda/dense_vector.h"
#include "cuda/memory_spec.h"

namespace tfcompress {
namespace device {

struct Compensation {
  DenseVector gradient;
  MemorySpec memory;
  DeviceSlot slots[kMaxSlots];  // The first NumSlots(memory) are used.
};

// The vector to compress after Settle: the memory's first slot, if it has one, else the gradient.
TFC_HOST_DEVICE inline DenseVector CompensatedVector(const Compensation& step) {
  if (step.memory.kind == MemoryKind::kNone) return step.gradient;
  return {step.slots[0].after_dev, DType::kFloat32, step.gradient.n};
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATION_H_
