// The memory's vectors of one tensor. The slots stay unchanged and the results are separate
// outputs, since the step may be rolled back.
#ifndef TFCOMPRESS_TF_SLOT_VECTORS_H_
#define TFCOMPRESS_TF_SLOT_VECTORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/codec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// What becomes of the gradient's buffer, where it is float32 and no one else holds it.
enum class GradientBuffer { kKeep, kBecomesFirstSlot };

struct SlotVectors {
  std::vector<const float*> before;
  std::vector<float*> after;

  MemorySlots slots() const { return {before, after}; }
};

// Input 0 is the gradient. Borrows the input list "slots", and allocates an output of the same
// shape for each, from output `first_output` on, or takes the gradient's buffer for the first one.
// Fails with InvalidArgument unless there are as many as the memory of `spec` needs, each of the
// gradient's size.
absl::Status AllocateSlots(tensorflow::OpKernelContext* ctx, const Memory& memory,
                           const std::string& spec, GradientBuffer gradient_buffer,
                           int first_output, SlotVectors* vectors);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SLOT_VECTORS_H_
