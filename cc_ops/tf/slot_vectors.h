// The memory's vectors of one tensor. Inputs stay unchanged and the results are separate outputs,
// since the step may be rolled back.
#ifndef TFCOMPRESS_TF_SLOT_VECTORS_H_
#define TFCOMPRESS_TF_SLOT_VECTORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/codec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

struct SlotVectors {
  std::vector<const float*> before;
  std::vector<float*> after;

  MemorySlots slots() const { return {before, after}; }
};

// Borrows the input list "slots", and allocates an output of the same shape for each, from output
// `first_output` on. Fails with InvalidArgument unless there are as many as the memory of `spec`
// needs, each of the gradient's size.
absl::Status AllocateSlots(tensorflow::OpKernelContext* ctx, const Memory& memory,
                           const std::string& spec, const tensorflow::Tensor& gradient,
                           int first_output, SlotVectors* vectors);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SLOT_VECTORS_H_
