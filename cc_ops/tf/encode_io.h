// Inputs of Encode, on whatever device it runs.
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

// Gradient and slots lie where the kernel runs.
struct EncodeInputs {
  std::shared_ptr<const Compressor> compressor;
  GradientView gradient;
  uint64_t seed = 0;
  SlotVectors slots;
};

// Allocates the new slots, too: outputs 2 and on.
absl::Status ReadEncodeInputs(tensorflow::OpKernelContext* ctx, CompressorCache* compressors,
                              EncodeInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_ENCODE_IO_H_
