// Memories with their parameters, and their vectors.
#ifndef TFCOMPRESS_CUDA_MEMORY_SPEC_H_
#define TFCOMPRESS_CUDA_MEMORY_SPEC_H_

#include <cstdint>

#include "core/memory/momentum_step.h"

namespace tfcompress {
namespace device {

// The ids of the registry.
enum class MemoryKind : uint8_t { kNone = 1, kResidual = 2, kMomentum = 3 };

// What a step does to what is pending: the memory's own rule for a gradient or, for a sum of what
// other ranks' memories let go, addition (tfcompress::Compensation).
enum class MemoryRule : uint8_t { kOfGradient, kPlainSum };

struct MemorySpec {
  MemoryKind kind;
  float rate;     // momentum
  bool nesterov;  // momentum
  MemoryRule rule = MemoryRule::kOfGradient;
};

inline constexpr int kMaxSlots = 2;

inline int NumSlots(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kNone:
      return 0;
    case MemoryKind::kResidual:
      return 1;
    case MemoryKind::kMomentum:
      return kNumMomentumSlots;
  }
  return 0;
}

// A vector of n floats that the memory keeps, before and after the step: the same vector, to update
// in place, or two that do not overlap.
struct DeviceSlot {
  const float* before_dev = nullptr;
  float* after_dev = nullptr;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_MEMORY_SPEC_H_
