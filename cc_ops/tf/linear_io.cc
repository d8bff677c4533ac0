#include "tf/linear_io.h"

#include "tf/kernel_io.h"
#include "tf/status_conversion.h"

namespace tfcompress {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status ReadLinearEncodeInputs(OpKernelContext* ctx, LinearCompressorCache* compressors,
                                    LinearEncodeInputs* inputs) {
  TF_RETURN_IF_ERROR(ReadSeedAndSpec(ctx, compressors, &inputs->seed, &inputs->compressor));
  tensorflow::OpInputList tensors;
  TF_RETURN_IF_ERROR(ctx->input_list("dense", &tensors));
  for (const Tensor& tensor : tensors) {
    inputs->parts.push_back(Floats(tensor));
    inputs->n += tensor.NumElements();
  }
  const LinearCodec& codec = inputs->compressor->codec();
  const int64_t size = codec.PayloadSize(inputs->n);
  TF_RETURN_IF_ERROR(ToTensorFlow(codec.CheckSizes(static_cast<size_t>(size), inputs->n)));
  Tensor* payload;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, tensorflow::TensorShape({size}), &payload));
  inputs->payload = Floats(payload);
  return absl::OkStatus();
}

absl::Status ReadLinearRecoverInputs(OpKernelContext* ctx, LinearCompressorCache* compressors,
                                     LinearRecoverInputs* inputs) {
  const Tensor* summed;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "summed", &summed));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "n", &inputs->n));
  TF_RETURN_IF_ERROR(ReadSeedAndSpec(ctx, compressors, &inputs->seed, &inputs->compressor));
  inputs->summed = Floats(*summed);
  return ToTensorFlow(inputs->compressor->codec().CheckSizes(inputs->summed.size(), inputs->n));
}

}  // namespace tfcompress
