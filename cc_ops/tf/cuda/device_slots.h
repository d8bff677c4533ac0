// The memory's vectors, for kernels that run on a GPU.
#ifndef TFCOMPRESS_TF_CUDA_DEVICE_SLOTS_H_
#define TFCOMPRESS_TF_CUDA_DEVICE_SLOTS_H_

#include <vector>

#include "cuda/memory_spec.h"
#include "tf/slot_vectors.h"

namespace tfcompress {

inline std::vector<device::DeviceSlot> OnDevice(const SlotVectors& vectors) {
  std::vector<device::DeviceSlot> slots;
  for (size_t i = 0; i < vectors.before.size(); ++i)
    slots.push_back({vectors.before[i], vectors.after[i]});
  return slots;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_DEVICE_SLOTS_H_
