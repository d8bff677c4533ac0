// The tensors of a training step on the device, and how long work on them takes.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_BENCH_STEP_ARRAYS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_BENCH_STEP_ARRAYS_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"
#include "cuda/memory_spec.h"
#include "cuda/owned_memory.h"
#include "cuda/sum_decoder.h"

namespace tfcompress {
namespace device {

inline constexpr int kRanks = 8;

// The gradients of all ranks, the slots of one rank's memory, and the sums: in each array all
// tensors of the step, one after another.
class StepArrays {
 public:
  // To be called once. The gradients are nearly normal values, other ones on each rank.
  Status Allocate(std::vector<uint64_t> sizes, DType dtype, int num_ranks, cudaStream_t stream);
  // Fills the slots with zeros.
  Status ClearSlots(cudaStream_t stream) const;

  size_t num_tensors() const { return sizes_.size(); }
  int num_ranks() const { return num_ranks_; }
  DType dtype() const { return dtype_; }
  uint64_t size(size_t tensor) const { return sizes_[tensor]; }
  uint64_t num_elements() const;  // Of all tensors.

  const void* gradient_dev(int rank, size_t tensor) const {
    return At(gradients_[rank], tensor, DTypeBytes(dtype_));
  }
  // A slot with another vector for after the step, as variables of TensorFlow have it.
  DeviceSlot slot(int i, size_t tensor) const {
    return {static_cast<float*>(At(slots_[i], tensor, sizeof(float))),
            static_cast<float*>(At(slots_after_[i], tensor, sizeof(float)))};
  }
  DeviceSlot slot_in_place(int i, size_t tensor) const {
    auto* const slot_dev = static_cast<float*>(At(slots_[i], tensor, sizeof(float)));
    return {slot_dev, slot_dev};
  }
  SumTarget target(size_t tensor) const {
    return {At(sums_, tensor, DTypeBytes(dtype_)), dtype_, sizes_[tensor]};
  }

 private:
  void* At(const OwnedMemory& array, size_t tensor, size_t element_bytes) const {
    return static_cast<unsigned char*>(array.buffer().data_dev) + begins_[tensor] * element_bytes;
  }
  Status Upload(int rank, cudaStream_t stream) const;

  std::vector<uint64_t> sizes_, begins_;
  uint64_t end_ = 0;
  DType dtype_ = DType::kFloat32;
  int num_ranks_ = 0;
  OwnedMemory gradients_[kRanks], slots_[kMaxSlots], slots_after_[kMaxSlots], sums_;
};

// Returns the median in milliseconds; the first run, which is slower, hardly changes it.
Result<double> MeasureMilliseconds(const std::function<Status()>& work, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_BENCH_STEP_ARRAYS_H_
