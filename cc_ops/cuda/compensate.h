// The two passes over a dense vector, or over those of several frames, Inspect and Settle. Fused
// into them are the addition of the memory, the finite check, the first histogram of a top-k and
// the marking of elements above a bound.
#ifndef TFCOMPRESS_CUDA_COMPENSATE_H_
#define TFCOMPRESS_CUDA_COMPENSATE_H_

#include <cuda_runtime.h>

#include <cstdint>

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

// A vector of floats without memory. The state may be null.
EncodedFrame AsTheyAre(const float* values_dev, uint64_t size, EncodeState* state_dev);

// Fails with InvalidArgument unless there are as many slots as the memory has and, if there are
// elements, no vector is null and the velocity of a sum is the same vector after the step, since no
// pass over the elements touches it.
Status CheckVectors(const MemorySpec& memory, const void* gradient_dev,
                    Span<const DeviceSlot> slots, uint64_t n);

// Subtracts sent values from the slots after the step.
SentSlots SentSlotsOf(const Compensation& step);

// First pass, reads only: with `state_dev`, sets its `nonfinite` if an element is not finite; with
// histograms, adds the first digits of all magnitudes to the first one. The slots are not written,
// since they must stay unchanged if the vector is not finite.
Status Inspect(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// Second pass, writes: the slots after the step, or before it if the vector is not finite; with
// `marks_by_magnitude`, marks and counts the elements of at least state_dev->min_magnitude, none if
// the vector is not finite. Without a state, and then without marks, the vector counts as finite.
Status Settle(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// Clears state of sent elements other than the residual: momentum clears the velocity at the
// indices that are sent, unless everything was.
Status ForgetSent(const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATE_H_
