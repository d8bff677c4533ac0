// The memory's vectors: tf.Variable resources, locked and writable for the time of one encoding.
#ifndef TFCOMPRESS_TF_LOCKED_SLOTS_H_
#define TFCOMPRESS_TF_LOCKED_SLOTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/refcount.h"

namespace tfcompress {

class LockedSlots {
 public:
  LockedSlots() = default;
  LockedSlots(const LockedSlots&) = delete;
  LockedSlots& operator=(const LockedSlots&) = delete;
  ~LockedSlots();

  // Looks up, locks and checks the variables behind the input list `input`: distinct, initialized
  // and float32, with as many elements each as `owner` has, which is what messages call it. Call
  // once; on failure only destruction is left.
  absl::Status Acquire(tensorflow::OpKernelContext* ctx, const char* input, const char* owner,
                       int64_t num_elements);

  // One vector a slot, in input order; valid until destruction.
  Span<float* const> vectors() const { return vectors_; }

 private:
  absl::Status LookUp(tensorflow::OpKernelContext* ctx, const char* input);
  absl::Status Lock();

  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;  // In input order.
  std::vector<tensorflow::Var*> locked_;
  std::vector<float*> vectors_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_LOCKED_SLOTS_H_
