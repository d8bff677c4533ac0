#include "tf/encode_io.h"

#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"

namespace tfcompress {

absl::Status ReadEncodeInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                              GradientBuffer gradient_buffer, EncodeInputs* inputs) {
  const tensorflow::Tensor& gradient = ctx->input(0);
  TF_RETURN_IF_ERROR(ReadSeedAndSpec(ctx, compressors, &inputs->seed, &inputs->compressor));
  constexpr int kNewSlots = 3;
  TF_RETURN_IF_ERROR(AllocateSlots(ctx, inputs->compressor->memory(), inputs->compressor->spec(),
                                   gradient_buffer, kNewSlots, &inputs->slots));
  inputs->gradient = {gradient.data(), ToDType(gradient.dtype()),
                      static_cast<uint64_t>(gradient.NumElements())};
  inputs->grid = GridOf(gradient);
  return absl::OkStatus();
}

absl::Status OutputFrameCounts(tensorflow::OpKernelContext* ctx, int64_t num_sent,
                               int64_t nanoseconds) {
  TF_RETURN_IF_ERROR(OutputScalar(ctx, 1, num_sent));
  return OutputScalar(ctx, 2, nanoseconds);
}

}  // namespace tfcompress
