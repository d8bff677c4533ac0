// The residual of a table: a tf.Variable resource, locked and writable during one encoding.
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
  // Looks up and locks the variable behind `handle`, and checks that it is initialized and float32,
  // with `num_elements` elements. To be called once; after a failure the object can only be
  // destroyed.
  absl::Status Acquire(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& handle,
                       int64_t num_elements);

  // Valid until destruction; null before Acquire.
  float* data() const { return data_; }

 private:
  tensorflow::core::RefCountPtr<tensorflow::Var> variable_;
  std::optional<tensorflow::mutex_lock> lock_;  // Lock of variable_; must be destroyed first.
  float* data_ = nullptr;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_LOCKED_SLOT_H_
