#include "tf/encode_io.h"

#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"

namespace tfcompress {

absl::Status ReadSpec(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                      std::shared_ptr<const Compressor>* compressor, uint64_t* seed) {
  int64_t signed_seed = 0;
  tensorflow::tstring spec;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "seed", &signed_seed));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "spec", &spec));
  *seed = static_cast<uint64_t>(signed_seed);
  return compressors->Get(spec, compressor);
}

absl::Status ReadEncodeInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                              GradientBuffer gradient_buffer, EncodeInputs* inputs) {
  const tensorflow::Tensor& gradient = ctx->input(0);
  TF_RETURN_IF_ERROR(ReadSpec(ctx, compressors, &inputs->compressor, &inputs->seed));
  constexpr int kNewSlots = 2;
  TF_RETURN_IF_ERROR(AllocateSlots(ctx, inputs->compressor->memory(), inputs->compressor->spec(),
                                   gradient_buffer, kNewSlots, &inputs->slots));
  inputs->gradient = {gradient.data(), ToDType(gradient.dtype()),
                      static_cast<uint64_t>(gradient.NumElements())};
  inputs->grid = GridOf(gradient);
  return absl::OkStatus();
}

}  // namespace tfcompress
