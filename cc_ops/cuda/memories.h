// The memories, for kernels: what a step makes of an element.
#ifndef TFCOMPRESS_CUDA_MEMORIES_H_
#define TFCOMPRESS_CUDA_MEMORIES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/memory/momentum_step.h"
#include "core/status.h"
#include "cuda/compensation.h"
#include "cuda/encode_state.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {

// Each memory computes the state of an element after the step, including the compensated element,
// and writes it, or the state before the step if the vector is not finite; or writes the residual
// and what it keeps beside that one by one.
struct NoMemory {
  using State = float;

  __device__ explicit NoMemory(const Compensation&) {}
  __device__ State Next(float gradient, uint32_t) const { return gradient; }
  __device__ void Write(uint32_t, State, bool) const {}
  __device__ void WriteResidual(uint32_t, float) const {}
  __device__ void WriteVelocity(uint32_t, State) const {}
};

struct ResidualMemory {
  using State = float;
  DeviceSlot residual;

  __device__ explicit ResidualMemory(const Compensation& step)
      : residual(step.slots[kResidualSlot]) {}
  __device__ State Next(float gradient, uint32_t i) const {
    return gradient + residual.before_dev[i];
  }
  __device__ void Write(uint32_t i, State after, bool finite) const {
    residual.after_dev[i] = finite ? after : residual.before_dev[i];
  }
  __device__ void WriteResidual(uint32_t i, float after) const { residual.after_dev[i] = after; }
  __device__ void WriteVelocity(uint32_t, State) const {}
};

template <typename Step>
struct MomentumMemory {
  using State = MomentumState;
  DeviceSlot residual;
  DeviceSlot velocity;
  Step step;

  __device__ explicit MomentumMemory(const Compensation& given)
      : residual(given.slots[kResidualSlot]),
        velocity(given.slots[kVelocitySlot]),
        step{given.memory.rate} {}
  __device__ State Next(float gradient, uint32_t i) const {
    return step(gradient, {residual.before_dev[i], velocity.before_dev[i]});
  }
  __device__ void Write(uint32_t i, State after, bool finite) const {
    residual.after_dev[i] = finite ? after.residual : residual.before_dev[i];
    velocity.after_dev[i] = finite ? after.velocity : velocity.before_dev[i];
  }
  __device__ void WriteResidual(uint32_t i, float after) const { residual.after_dev[i] = after; }
  __device__ void WriteVelocity(uint32_t i, const State& after) const {
    velocity.after_dev[i] = after.velocity;
  }
};

__device__ inline float CompensatedOf(float state) { return state; }
__device__ inline float CompensatedOf(const MomentumState& state) { return state.residual; }

__device__ inline void NoteNonfinite(bool finite, EncodeState* state) {
  if (!finite) atomicOr(&state->nonfinite, 1u);
}

// Computes the state of the lane's next elements, from `begin` on, a warp apart; elements past the
// end are 0.
template <typename Memory>
__device__ void LoadStates(const DenseVector& gradient, const Memory& memory, uint64_t begin,
                           typename Memory::State* states) {
  for (uint32_t j = 0; j < kLoadsAtOnce; ++j) {
    const auto i = static_cast<uint32_t>(begin + j * kWarpThreads);
    states[j] = begin + j * kWarpThreads < gradient.n ? memory.Next(gradient.At(i), i)
                                                      : typename Memory::State{};
  }
}

// Calls body(Memory*) with the type of the memory, one of those above.
template <typename Body>
Status WithMemory(const MemorySpec& memory, const Body& body) {
  switch (memory.kind) {
    case MemoryKind::kNone:
      return body(static_cast<NoMemory*>(nullptr));
    case MemoryKind::kResidual:
      return body(static_cast<ResidualMemory*>(nullptr));
    case MemoryKind::kMomentum:
      if (memory.rule == MemoryRule::kPlainSum) return body(static_cast<ResidualMemory*>(nullptr));
      if (memory.nesterov) return body(static_cast<MomentumMemory<NesterovMomentum>*>(nullptr));
      return body(static_cast<MomentumMemory<PlainMomentum>*>(nullptr));
  }
  return OkStatus();
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_MEMORIES_H_
