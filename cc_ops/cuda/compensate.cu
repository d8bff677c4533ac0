#include <algorithm>
#include <type_traits>

#include "core/collect.h"
#include "core/float_order.h"
#include "cuda/compensate.h"
#include "cuda/digits.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// Elements that a lane loads before it uses the first, so that the loads overlap.
constexpr uint32_t kAtOnce = 4;

// The memories. Each computes the state of an element after the step, including the compensated
// element, and writes it, or the state before the step if the vector is not finite.
struct NoMemory {
  using State = float;
  __device__ State Next(float gradient, uint32_t) const { return gradient; }
  __device__ void Write(uint32_t, State, bool) const {}
};

struct ResidualMemory {
  using State = float;
  DeviceSlot residual;

  __device__ State Next(float gradient, uint32_t i) const {
    return gradient + residual.before_dev[i];
  }
  __device__ void Write(uint32_t i, State after, bool finite) const {
    residual.after_dev[i] = finite ? after : residual.before_dev[i];
  }
};

template <typename Step>
struct MomentumMemory {
  using State = MomentumState;
  DeviceSlot residual;
  DeviceSlot velocity;
  Step step;

  __device__ State Next(float gradient, uint32_t i) const {
    return step(gradient, {residual.before_dev[i], velocity.before_dev[i]});
  }
  __device__ void Write(uint32_t i, State after, bool finite) const {
    residual.after_dev[i] = finite ? after.residual : residual.before_dev[i];
    velocity.after_dev[i] = finite ? after.velocity : velocity.before_dev[i];
  }
};

__device__ inline float CompensatedOf(float state) { return state; }
__device__ inline float CompensatedOf(const MomentumState& state) { return state.residual; }

// Calls body(memory) with the step's memory as one of the types above.
template <typename Body>
Status WithMemory(const Compensation& step, const Body& body) {
  const DeviceSlot* slots = step.slots;
  const float rate = step.memory.rate;
  switch (step.memory.kind) {
    case MemoryKind::kNone:
      return body(NoMemory{});
    case MemoryKind::kResidual:
      return body(ResidualMemory{slots[0]});
    case MemoryKind::kMomentum:
      if (step.memory.rule == MemoryRule::kPlainSum) {
        return body(ResidualMemory{slots[kResidualSlot]});
      }
      if (step.memory.nesterov) {
        return body(
            MomentumMemory<NesterovMomentum>{slots[kResidualSlot], slots[kVelocitySlot], {rate}});
      }
      return body(
          MomentumMemory<PlainMomentum>{slots[kResidualSlot], slots[kVelocitySlot], {rate}});
  }
  return OkStatus();
}

// Computes the state of the lane's next elements, from `begin` on, a warp apart; elements past the
// end are 0.
template <typename Memory>
__device__ void Load(const DenseVector& gradient, const Memory& memory, uint64_t begin,
                     typename Memory::State* states) {
  for (uint32_t j = 0; j < kAtOnce; ++j) {
    const auto i = static_cast<uint32_t>(begin + j * kWarpThreads);
    states[j] = begin + j * kWarpThreads < gradient.n ? memory.Next(gradient.At(i), i)
                                                      : typename Memory::State{};
  }
}

template <typename Memory>
__global__ void __launch_bounds__(kBlockThreads)
    InspectKernel(DenseVector gradient, Memory memory, Digit digit, uint32_t* histogram,
                  EncodeState* state) {
  __shared__ uint32_t counts[kMaxBuckets];
  ClearCounts(counts);
  bool finite = true;
  const uint64_t num_tiles = NumTiles(gradient.n);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    for (uint32_t word = 0; word < kTileWords; word += kAtOnce) {
      typename Memory::State states[kAtOnce];
      Load(gradient, memory, first + word * 32, states);
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const float value = CompensatedOf(states[j]);
        finite &= IsFiniteBits(FloatBits(value));
        if (histogram == nullptr) continue;
        const bool exists = first + (word + j) * 32 < gradient.n;
        CountBuckets(digit.Of(MagnitudeBits(value)), exists, counts);
      }
    }
  }
  if (!finite) atomicOr(&state->nonfinite, 1u);
  if (histogram != nullptr) AddCounts(counts, histogram);
}

template <typename Memory>
__global__ void __launch_bounds__(kBlockThreads)
    SettleKernel(DenseVector gradient, Memory memory, const EncodeState* state, uint32_t* words,
                 uint64_t* counts) {
  const bool finite = state->nonfinite == 0;
  const uint32_t min_magnitude = state->min_magnitude;
  const uint64_t num_tiles = NumTiles(gradient.n);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    uint32_t own_word = 0;
    uint32_t count = 0;
    for (uint32_t word = 0; word < kTileWords; word += kAtOnce) {
      typename Memory::State states[kAtOnce];
      Load(gradient, memory, first + word * 32, states);
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const uint64_t i = first + (word + j) * 32;
        const bool exists = i < gradient.n;
        if (exists) memory.Write(static_cast<uint32_t>(i), states[j], finite);
        if (words == nullptr) continue;
        const bool marked =
            exists && finite && MagnitudeBits(CompensatedOf(states[j])) >= min_magnitude;
        const uint32_t marks = __ballot_sync(kAllLanes, marked);
        if (ThisLane() == word + j) own_word = marks;
        count += static_cast<uint32_t>(__popc(marks));
      }
    }
    if (words == nullptr) continue;
    words[tile * kTileWords + ThisLane()] = own_word;
    if (ThisLane() == 0) counts[tile] = count;
  }
}

__global__ void ForgetSentKernel(const uint32_t* sent, const EncodeState* state, uint32_t n,
                                 float* velocity) {
  const uint32_t k = state->k;
  if (!MasksVelocity(k, n)) return;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) velocity[sent[i]] = 0;
}

}  // namespace

Compensation AsTheyAre(const float* values_dev, uint64_t size) {
  return {{values_dev, DType::kFloat32, static_cast<uint32_t>(size)},
          MemorySpec{MemoryKind::kNone, 0, false},
          {}};
}

Status CheckVectors(const MemorySpec& memory, const void* gradient_dev,
                    Span<const DeviceSlot> slots, uint64_t n) {
  if (slots.size() != static_cast<size_t>(NumSlots(memory.kind))) {
    return InvalidArgument("the memory needs ", NumSlots(memory.kind), " slots, got ",
                           slots.size());
  }
  if (n == 0) return OkStatus();
  if (gradient_dev == nullptr) return InvalidArgument("the gradient is null");
  const bool has_slots = std::all_of(slots.begin(), slots.end(), [](const DeviceSlot& slot) {
    return slot.before_dev != nullptr && slot.after_dev != nullptr;
  });
  if (!has_slots) return InvalidArgument("a slot of the memory has a null vector");
  if (memory.rule == MemoryRule::kPlainSum && memory.kind == MemoryKind::kMomentum &&
      slots[kVelocitySlot].before_dev != slots[kVelocitySlot].after_dev) {
    return InvalidArgument("the velocity of a sum is updated in place");
  }
  return OkStatus();
}

DenseVector CompensatedVector(const Compensation& step) {
  if (step.memory.kind == MemoryKind::kNone) return step.gradient;
  return {step.slots[0].after_dev, DType::kFloat32, step.gradient.n};
}

Status Inspect(const Compensation& step, uint32_t* histogram_dev, EncodeState* state_dev,
               cudaStream_t stream) {
  return WithMemory(step, [&](const auto& memory) {
    return LaunchWarps("inspect", InspectKernel<std::decay_t<decltype(memory)>>,
                       NumTiles(step.gradient.n), stream, step.gradient, memory, kDigits[0],
                       histogram_dev, state_dev);
  });
}

Status Settle(const Compensation& step, const Marks* marks, const EncodeState* state_dev,
              cudaStream_t stream) {
  return WithMemory(step, [&](const auto& memory) {
    return LaunchWarps("settle", SettleKernel<std::decay_t<decltype(memory)>>,
                       NumTiles(step.gradient.n), stream, step.gradient, memory, state_dev,
                       marks == nullptr ? nullptr : marks->words_dev,
                       marks == nullptr ? nullptr : marks->ends_dev);
  });
}

SentSlots SentSlotsOf(const Compensation& step) {
  const bool has_velocity = step.memory.kind == MemoryKind::kMomentum;
  return {step.slots[kResidualSlot].after_dev,
          has_velocity ? step.slots[kVelocitySlot].after_dev : nullptr};
}

Status ForgetSent(const Compensation& step, const uint32_t* sent_dev, uint32_t max_k,
                  const EncodeState* state_dev, cudaStream_t stream) {
  if (step.memory.kind != MemoryKind::kMomentum || sent_dev == nullptr) return OkStatus();
  return LaunchThreads("forget sent", ForgetSentKernel, max_k, stream, sent_dev, state_dev,
                       step.gradient.n, step.slots[kVelocitySlot].after_dev);
}

}  // namespace device
}  // namespace tfcompress
