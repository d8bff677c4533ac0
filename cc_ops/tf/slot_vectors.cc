#include "tf/slot_vectors.h"

#include "absl/strings/str_cat.h"

namespace tfcompress {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status AllocateSlots(OpKernelContext* ctx, const Memory& memory, const std::string& spec,
                           GradientBuffer gradient_buffer, int first_output, SlotVectors* vectors) {
  constexpr int kGradient = 0;
  const Tensor& gradient = ctx->input(kGradient);
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
    std::vector<int> candidates;  // Inputs whose buffer the output may take.
    if (i == 0 && gradient_buffer == GradientBuffer::kBecomesFirstSlot) candidates = {kGradient};
    TF_RETURN_IF_ERROR(ctx->forward_input_or_allocate_output(candidates, first_output + i,
                                                             slots[i].shape(), &after));
    vectors->before.push_back(slots[i].flat<float>().data());
    vectors->after.push_back(after->flat<float>().data());
  }
  return absl::OkStatus();
}

}  // namespace tfcompress
