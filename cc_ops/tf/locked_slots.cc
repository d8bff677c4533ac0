#include "tf/locked_slots.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

absl::Status CheckSlot(size_t slot, Var* variable, const char* owner, int64_t num_elements) {
  const Tensor& value = *variable->tensor();
  if (!variable->is_initialized || !value.IsInitialized()) {
    return absl::FailedPreconditionError(absl::StrCat("slot ", slot, " is not initialized"));
  }
  if (value.dtype() != tensorflow::DT_FLOAT) {
    return absl::InvalidArgumentError(absl::StrCat("slot ", slot, " must be float32, got ",
                                                   tensorflow::DataTypeString(value.dtype())));
  }
  if (value.NumElements() != num_elements) {
    return absl::InvalidArgumentError(absl::StrCat("slot ", slot, " has ", value.NumElements(),
                                                   " elements, ", owner, " has ", num_elements));
  }
  return absl::OkStatus();
}

// Makes `value` the only owner of its buffer: a tensor that was read from the variable may share
// it. (In copy-on-read mode none does.)
absl::Status Unshare(OpKernelContext* ctx, Tensor* value) {
  if (value->RefCountIsOne()) return absl::OkStatus();
  Tensor copy;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(value->dtype(), value->shape(), &copy));
  if (value->TotalBytes() > 0) std::memcpy(copy.data(), value->data(), value->TotalBytes());
  *value = std::move(copy);
  return absl::OkStatus();
}

}  // namespace

LockedSlots::~LockedSlots() {
  for (Var* variable : locked_) variable->mu()->unlock();
}

absl::Status LockedSlots::LookUp(OpKernelContext* ctx, const char* input) {
  tensorflow::OpInputList handles;
  TF_RETURN_IF_ERROR(ctx->input_list(input, &handles));
  for (int slot = 0; slot < handles.size(); ++slot) {
    const auto& handle = handles[slot].scalar<tensorflow::ResourceHandle>()();
    tensorflow::core::RefCountPtr<Var> variable;
    const absl::Status found = tensorflow::LookupResource(ctx, handle, &variable);
    if (!found.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("slot ", slot, " is not an initialized variable: ", found.message()));
    }
    variables_.push_back(std::move(variable));
  }
  return absl::OkStatus();
}

// In the order of addresses, as TensorFlow itself locks several variables, so that no two ops wait
// for each other. A Var holds its mutex, so their addresses have the same order.
absl::Status LockedSlots::Lock() {
  std::vector<Var*> ordered;
  for (const auto& variable : variables_) ordered.push_back(variable.get());
  std::sort(ordered.begin(), ordered.end(), std::less<>());
  if (std::adjacent_find(ordered.begin(), ordered.end()) != ordered.end()) {
    return absl::InvalidArgumentError("one variable is given as two slots");
  }
  for (Var* variable : ordered) variable->mu()->lock();
  locked_ = std::move(ordered);
  return absl::OkStatus();
}

absl::Status LockedSlots::Acquire(OpKernelContext* ctx, const char* input, const char* owner,
                                  int64_t num_elements) {
  TF_RETURN_IF_ERROR(LookUp(ctx, input));
  TF_RETURN_IF_ERROR(Lock());
  for (size_t slot = 0; slot < variables_.size(); ++slot) {
    Var* variable = variables_[slot].get();
    TF_RETURN_IF_ERROR(CheckSlot(slot, variable, owner, num_elements));
    TF_RETURN_IF_ERROR(Unshare(ctx, variable->tensor()));
    vectors_.push_back(variable->tensor()->flat<float>().data());
  }
  return absl::OkStatus();
}

}  // namespace tfcompress
