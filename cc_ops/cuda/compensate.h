// The pass over a dense vector, or over those of several frames, that adds the memory, notes what
// is not finite and marks the elements above a bound.
#ifndef TFCOMPRESS_CUDA_COMPENSATE_H_
#define TFCOMPRESS_CUDA_COMPENSATE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/compensation.h"
#include "cuda/encode_state.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/sent_slots.h"

namespace tfcompress {
namespace device {

// A vector that gets no frame, for the passes below and for the selection from it: what kernels
// read of one alone are parameters, so that it needs no table on the device.
inline Parts<EncodedFrame> Alone(const EncodedFrame& vector) { return {{&vector, 1}, nullptr}; }

// A vector of floats without memory. The state may be null where nothing notes what is not finite.
TFC_HOST_DEVICE inline EncodedFrame AsTheyAre(const float* values_dev, uint64_t size,
                                              EncodeState* state_dev) {
  EncodedFrame vector{};
  vector.compensation.gradient = {values_dev, DType::kFloat32, static_cast<uint32_t>(size)};
  vector.compensation.memory.kind = MemoryKind::kNone;
  vector.state_dev = state_dev;
  return vector;
}

// The same, to select some of the marks.n values (select_largest.h).
TFC_HOST_DEVICE inline EncodedFrame ToSelectFrom(const float* values_dev, const SelectSpace& space,
                                                 const Marks& marks, EncodeState* state_dev,
                                                 uint32_t* selected_dev) {
  EncodedFrame vector = AsTheyAre(values_dev, marks.n, state_dev);
  vector.marks_by_magnitude = true;
  vector.marks = marks;
  vector.select = space;
  vector.support_dev = selected_dev;
  return vector;
}

// Fails with InvalidArgument unless there are as many slots as the memory has and, if there are
// elements, no vector is null and the velocity of a sum is the same vector after the step, since no
// pass over the elements touches it.
Status CheckVectors(const MemorySpec& memory, const void* gradient_dev,
                    Span<const DeviceSlot> slots, uint64_t n);

// Reads only: sets `nonfinite` in the states of vectors that are not finite.
Status Inspect(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// Writes the slots after the step, or before it if the vector is known not to be finite; with
// `marks_by_magnitude`, marks and counts the elements of at least state_dev->min_magnitude, none if
// the vector is known not to be finite. With `notes_nonfinite` that is not known, but set in the
// states. Without a state, and then without notes and marks, the vector counts as finite.
Status Settle(const Parts<EncodedFrame>& frames, bool notes_nonfinite, cudaStream_t stream);

// Whether the step of some vector updates a slot in place, or, otherwise, writes it elsewhere.
bool WritesSlots(const Parts<EncodedFrame>& frames, bool in_place);

// Writes the slots before the step, if the vector is noted not to be finite.
Status RestoreSlots(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// Runs pass(notes_nonfinite) over vectors, which writes slots after the step, as Settle does. What
// it wrote is put back if the vector is not finite. Slots that are updated in place cannot be put
// back: where there is one, the vectors are inspected first.
template <typename Pass>
Status InOnePass(const Parts<EncodedFrame>& frames, cudaStream_t stream, const Pass& pass) {
  const bool inspects = WritesSlots(frames, /*in_place=*/true);
  if (inspects) TFC_RETURN_IF_ERROR(Inspect(frames, stream));
  TFC_RETURN_IF_ERROR(pass(!inspects));
  return WritesSlots(frames, /*in_place=*/false) ? RestoreSlots(frames, stream) : OkStatus();
}

// Settles vectors, and sets `nonfinite` in the states of those that are not finite: their slots are
// those before the step, and their marks unspecified, but consistent with the counts. Without
// memory and marks, inspects them.
Status Compensate(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// Clears state of sent elements other than the residual: momentum clears the velocity at the
// indices that are sent, unless everything was.
Status ForgetSent(const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATE_H_
