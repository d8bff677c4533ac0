// The residual of a table: a tf.Variable resource, locked and writable for the time of one
// encoding.
#ifndef TFCOMPRESS_TF_LOCKED_SLOT_H_
#define TFCOMPRESS_TF_LOCKED_SLOT_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/refcount.h"

namespace tfcompress {

class LockedSlot {
 public:
  // Looks up, locks and checks the variable behind `handle`: initialized and float32, with
  // `num_elements` elements. Call once; on failure only destruction is left.
  absl::Status Acquire(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& handle,
                       int64_t num_elements);

  // Valid until destruction; null before Acquire.
  float* data() const { return data_; }

 private:
  tensorflow::core::RefCountPtr<tensorflow::Var> variable_;
  std::optional<tensorflow::mutex_lock> lock_;  // Of variable_, so it goes first.
  float* data_ = nullptr;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_LOCKED_SLOT_H_
