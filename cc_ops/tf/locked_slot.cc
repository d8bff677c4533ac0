#include "tf/locked_slot.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

absl::Status CheckSlot(Var* variable, int64_t num_elements) {
  const Tensor& value = *variable->tensor();
  if (!variable->is_initialized || !value.IsInitialized()) {
    return absl::FailedPreconditionError("the residual is not initialized");
  }
  if (value.dtype() != tensorflow::DT_FLOAT) {
    return absl::InvalidArgumentError(absl::StrCat("the residual must be float32, got ",
                                                   tensorflow::DataTypeString(value.dtype())));
  }
  if (value.NumElements() != num_elements) {
    return absl::InvalidArgumentError(absl::StrCat("the residual has ", value.NumElements(),
                                                   " elements, the table has ", num_elements));
  }
  return absl::OkStatus();
}

// Makes `value` the only owner of its buffer: a tensor that was read from the variable may share
// it, except in copy-on-read mode.
absl::Status Unshare(OpKernelContext* ctx, Tensor* value) {
  if (value->RefCountIsOne()) return absl::OkStatus();
  Tensor copy;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(value->dtype(), value->shape(), &copy));
  if (value->TotalBytes() > 0) std::memcpy(copy.data(), value->data(), value->TotalBytes());
  *value = std::move(copy);
  return absl::OkStatus();
}

}  // namespace

absl::Status LockedSlot::Acquire(OpKernelContext* ctx, const Tensor& handle, int64_t num_elements) {
  const auto& resource = handle.scalar<tensorflow::ResourceHandle>()();
  const absl::Status found = tensorflow::LookupResource(ctx, resource, &variable_);
  if (!found.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the residual is not an initialized variable: ", found.message()));
  }
  lock_.emplace(*variable_->mu());
  TF_RETURN_IF_ERROR(CheckSlot(variable_.get(), num_elements));
  TF_RETURN_IF_ERROR(Unshare(ctx, variable_->tensor()));
  data_ = variable_->tensor()->flat<float>().data();
  return absl::OkStatus();
}

}  // namespace tfcompress
