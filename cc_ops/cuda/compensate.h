// The two passes over the dense vector. What the memory adds, the finite check, the first
// histogram of a top-k and the marking of what a bound selects are fused into them.
#ifndef TFCOMPRESS_CUDA_COMPENSATE_H_
#define TFCOMPRESS_CUDA_COMPENSATE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/memory_spec.h"
#include "cuda/sent_slots.h"

namespace tfcompress {
namespace device {

// A gradient, and the memory that it meets.
struct Compensation {
  DenseVector gradient;
  MemorySpec memory;
  DeviceSlot slots[kMaxSlots];  // Those that the memory has.
};

// Floats that meet no memory.
Compensation AsTheyAre(const float* values_dev, uint64_t size);

// Fails with InvalidArgument unless the slots are those of the memory and, where there are
// elements, every vector is there.
Status CheckVectors(MemoryKind memory, const void* gradient_dev, Span<const DeviceSlot> slots,
                    uint64_t n);

// Where the vector to compress stands after Settle: in the memory's first slot, if it has one.
DenseVector CompensatedVector(const Compensation& step);
// What takes out of the slots that are written.
SentSlots SentSlotsOf(const Compensation& step);

// Reads: sets state_dev->nonfinite where an element is not finite and, with `histogram_dev`, adds
// the first digits of all magnitudes to it. Nothing is written yet: the slots have to stay as they
// are when the vector is not finite.
Status Inspect(const Compensation& step, uint32_t* histogram_dev, EncodeState* state_dev,
               cudaStream_t stream);

// Writes: the slots, as they are after the step, or as they were where the vector is not finite;
// and, with `marks`, marks and counts the elements of state_dev->min_magnitude and above, none
// where the vector is not finite.
Status Settle(const Compensation& step, const Marks* marks, const EncodeState* state_dev,
              cudaStream_t stream);

// What the memory forgets besides the values that were sent: momentum clears the velocity at
// sent_dev[0] ... sent_dev[state_dev->k - 1], at most max_k, unless everything was sent. A null
// sent_dev is everything.
Status ForgetSent(const Compensation& step, const uint32_t* sent_dev, uint32_t max_k,
                  const EncodeState* state_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATE_H_
