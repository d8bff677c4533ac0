#include "tf/slot_vectors.h"

#include "absl/strings/str_cat.h"

namespace tfcompress {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status AllocateSlots(OpKernelContext* ctx, const Memory& memory, const std::string& spec,
                           const Tensor& gradient, int first_output, SlotVectors* vectors) {
  tensorflow::OpInputList slots;
  TF_RETURN_IF_ERROR(ctx->input_list("slots", &slots));
  if (slots.size() != memory.num_slots()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the memory of '", spec, "' needs ", memory.num_slots(), " slots, got ", slots.size()));
  }
  for (int i = 0; i < slots.size(); ++i) {
    if (slots[i].NumElements() != gradient.NumElements()) {
      return absl::InvalidArgumentError(absl::StrCat("slot ", i, " has ", slots[i].NumElements(),
                                                     " elements, the gradient has ",
                                                     gradient.NumElements()));
    }
    Tensor* after;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first_output + i, slots[i].shape(), &after));
    vectors->before.push_back(slots[i].flat<float>().data());
    vectors->after.push_back(after->flat<float>().data());
  }
  return absl::OkStatus();
}

}  // namespace tfcompress
