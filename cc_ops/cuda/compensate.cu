#include <algorithm>
#include <type_traits>

#include "core/float_order.h"
#include "core/host_device.h"
#include "cuda/compensate.h"
#include "cuda/launch_frames.h"
#include "cuda/memories.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// What a pass reads and writes beside the elements.
struct Pass {
  Compensation step;
  EncodeState* state;
  uint32_t* words;
  uint64_t* counts;

  TFC_HOST_DEVICE static Pass Of(const EncodedFrame& frame) {
    return {frame.compensation, frame.state_dev,
            frame.marks_by_magnitude ? frame.marks.words_dev : nullptr, frame.marks.ends_dev};
  }
};

template <typename Memory, typename Source>
__global__ void __launch_bounds__(kBlockThreads) InspectKernel(Source source) {
  const Pass pass = source.Get();
  const DenseVector gradient = pass.step.gradient;
  const Memory memory(pass.step);
  bool finite = true;
  for (uint64_t tile = ThisWarp(); tile < NumTiles(gradient.n); tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    for (uint32_t row = 0; row < kTileElements; row += kLoadsAtOnce * kWarpThreads) {
      typename Memory::State states[kLoadsAtOnce];
      LoadStates(gradient, memory, first + row, states);
      for (const auto& state : states) finite &= IsFiniteBits(FloatBits(CompensatedOf(state)));
    }
  }
  NoteNonfinite(finite, pass.state);
}

template <typename Memory, typename Source>
__global__ void __launch_bounds__(kBlockThreads) SettleKernel(Source source, bool notes_nonfinite) {
  const Pass pass = source.Get();
  const DenseVector gradient = pass.step.gradient;
  const Memory memory(pass.step);
  uint32_t* const words = pass.words;
  const bool settles = notes_nonfinite || pass.state == nullptr || pass.state->nonfinite == 0;
  const uint32_t min_magnitude = words == nullptr ? 0 : pass.state->min_magnitude;
  const uint64_t num_tiles = NumTiles(gradient.n);
  bool finite = true;
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    uint32_t own_word = 0;
    uint32_t count = 0;
    for (uint32_t word = 0; word < kTileWords; word += kLoadsAtOnce) {
      typename Memory::State states[kLoadsAtOnce];
      LoadStates(gradient, memory, first + word * 32, states);
      for (uint32_t j = 0; j < kLoadsAtOnce; ++j) {
        const uint64_t i = first + (word + j) * 32;
        const bool exists = i < gradient.n;
        const uint32_t bits = FloatBits(CompensatedOf(states[j]));
        finite &= IsFiniteBits(bits);
        if (exists) memory.Write(static_cast<uint32_t>(i), states[j], settles);
        if (words == nullptr) continue;
        const bool marked = exists && settles && (bits & kFloatMagnitudeBits) >= min_magnitude;
        const uint32_t marks = __ballot_sync(kAllLanes, marked);
        if (ThisLane() == word + j) own_word = marks;
        count += static_cast<uint32_t>(__popc(marks));
      }
    }
    if (words == nullptr) continue;
    words[tile * kTileWords + ThisLane()] = own_word;
    if (ThisLane() == 0) pass.counts[tile] = count;
  }
  if (notes_nonfinite) NoteNonfinite(finite, pass.state);
}

// Puts the slots back if the vector was not finite.
template <typename Memory, typename Source>
__global__ void RestoreKernel(Source source) {
  const Pass pass = source.Get();
  if (pass.state->nonfinite == 0) return;
  const Memory memory(pass.step);
  const uint32_t n = pass.step.gradient.n;
  for (uint64_t i = ThisThread(); i < n; i += NumThreads())
    memory.Write(static_cast<uint32_t>(i), typename Memory::State{}, /*finite=*/false);
}

// Launches the kernel that kernel_of(Memory*, source) returns, on the tiles of all vectors.
template <typename KernelOf, typename... Arguments>
Status LaunchPass(const char* name, const Parts<EncodedFrame>& frames, cudaStream_t stream,
                  const KernelOf& kernel_of, const Arguments&... arguments) {
  return WithMemory(frames.on_host[0].compensation.memory, [&](auto* memory) {
    return LaunchViews<Pass>(
        name, [&](auto source) { return kernel_of(memory, source); }, frames, TileThreadsOf, stream,
        arguments...);
  });
}

__global__ void ForgetSentKernel(const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t* const sent = frame.sent_dev;
  float* const velocity = frame.compensation.slots[kVelocitySlot].after_dev;
  const uint32_t k = frame.state_dev->k;
  if (sent == nullptr || !MasksVelocity(k, frame.compensation.gradient.n)) return;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) velocity[sent[i]] = 0;
}

}  // namespace

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

bool WritesSlots(const Parts<EncodedFrame>& frames, bool in_place) {
  return std::any_of(frames.on_host.begin(), frames.on_host.end(), [&](const EncodedFrame& frame) {
    const MemorySpec& memory = frame.compensation.memory;
    const DeviceSlot* slots = frame.compensation.slots;
    const int num_slots = NumSlots(memory.kind);
    // The step of a sum does not touch the velocity.
    const int num_written =
        memory.rule == MemoryRule::kPlainSum ? std::min(num_slots, 1) : num_slots;
    return frame.compensation.gradient.n > 0 &&
           std::any_of(slots, slots + num_written, [&](const DeviceSlot& slot) {
             return (slot.before_dev == slot.after_dev) == in_place;
           });
  });
}

Status Inspect(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchPass("inspect", frames, stream, [](auto* memory, auto source) {
    return InspectKernel<std::remove_pointer_t<decltype(memory)>, decltype(source)>;
  });
}

Status Settle(const Parts<EncodedFrame>& frames, bool notes_nonfinite, cudaStream_t stream) {
  const auto kernel = [](auto* memory, auto source) {
    return SettleKernel<std::remove_pointer_t<decltype(memory)>, decltype(source)>;
  };
  return LaunchPass("settle", frames, stream, kernel, notes_nonfinite);
}

Status RestoreSlots(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchPass("restore slots", frames, stream, [](auto* memory, auto source) {
    return RestoreKernel<std::remove_pointer_t<decltype(memory)>, decltype(source)>;
  });
}

Status Compensate(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  const EncodedFrame& first = frames.on_host[0];
  if (first.compensation.memory.kind == MemoryKind::kNone && !first.marks_by_magnitude)
    return Inspect(frames, stream);
  return InOnePass(frames, stream,
                   [&](bool notes_nonfinite) { return Settle(frames, notes_nonfinite, stream); });
}

Status ForgetSent(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  if (frames.on_host[0].compensation.memory.kind != MemoryKind::kMomentum) return OkStatus();
  return LaunchFrames(
      "forget sent", ForgetSentKernel, frames,
      [](const EncodedFrame& frame) { return frame.sent_dev == nullptr ? 0 : frame.max_sent; },
      stream);
}

}  // namespace device
}  // namespace tfcompress
