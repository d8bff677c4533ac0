#include "tf/encode_io.h"

#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"

namespace tfcompress {

absl::Status ReadEncodeInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                              GradientBuffer gradient_buffer, EncodeInputs* inputs) {
  const tensorflow::Tensor& gradient = ctx->input(0);
  int64_t seed = 0;
  tensorflow::tstring spec;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "seed", &seed));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "spec", &spec));
  TF_RETURN_IF_ERROR(compressors->Get(spec, &inputs->compressor));
  constexpr int kNewSlots = 2;
  TF_RETURN_IF_ERROR(AllocateSlots(ctx, inputs->compressor->memory(), inputs->compressor->spec(),
                                   gradient_buffer, kNewSlots, &inputs->slots));
  inputs->gradient = {gradient.data(), ToDType(gradient.dtype()),
                      static_cast<uint64_t>(gradient.NumElements())};
  inputs->seed = static_cast<uint64_t>(seed);
  return absl::OkStatus();
}

}  // namespace tfcompress
