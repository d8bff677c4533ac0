// A step of momentum for one element: the arithmetic that core and device share.
#ifndef TFCOMPRESS_CORE_MEMORY_MOMENTUM_STEP_H_
#define TFCOMPRESS_CORE_MEMORY_MOMENTUM_STEP_H_

#include <cstdint>

#include "core/host_device.h"

namespace tfcompress {

// The order of the memory's slots.
enum MomentumSlot { kResidualSlot, kVelocitySlot, kNumMomentumSlots };

struct MomentumState {
  float residual;
  float velocity;
};

struct PlainMomentum {
  float rate;  // Factor by which a step decays the velocity.

  TFC_HOST_DEVICE MomentumState operator()(float gradient, MomentumState before) const {
    const float velocity = rate * before.velocity + gradient;
    return {before.residual + velocity, velocity};
  }
};

struct NesterovMomentum {
  float rate;

  TFC_HOST_DEVICE MomentumState operator()(float gradient, MomentumState before) const {
    const float velocity = rate * (before.velocity + gradient);
    return {before.residual + velocity + gradient, velocity};
  }
};

// Whether the velocity of sent elements is cleared: if everything is sent, nothing is stale.
TFC_HOST_DEVICE inline bool MasksVelocity(uint64_t num_sent, uint64_t n) { return num_sent < n; }

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_MEMORY_MOMENTUM_STEP_H_
