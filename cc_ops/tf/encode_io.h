// Inputs and outputs of Encode, the same on every device.
#ifndef TFCOMPRESS_TF_ENCODE_IO_H_
#define TFCOMPRESS_TF_ENCODE_IO_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/slot_vectors.h"

namespace tfcompress {

// Gradient and slots are in the memory of the kernel's device.
struct EncodeInputs {
  std::shared_ptr<const Compressor> compressor;
  GradientView gradient;
  Grid grid;  // The gradient's shape.
  uint64_t seed = 0;
  SlotVectors slots;
};

// Reads the inputs, and allocates the new slots, which are the outputs from 3 on. The first one may
// be the gradient's memory.
absl::Status ReadEncodeInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                              GradientBuffer gradient_buffer, EncodeInputs* inputs);
// Sets the outputs between a frame and the slots.
absl::Status OutputFrameCounts(tensorflow::OpKernelContext* ctx, int64_t num_sent,
                               int64_t nanoseconds);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_ENCODE_IO_H_
