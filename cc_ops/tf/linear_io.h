// Inputs of LinearEncode and LinearRecover, the same on every device.
#ifndef TFCOMPRESS_TF_LINEAR_IO_H_
#define TFCOMPRESS_TF_LINEAR_IO_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "core/linear_compressor.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"

namespace tfcompress {

// The parts of the vector, end to end, and the payload are in the memory of the kernel's device.
struct LinearEncodeInputs {
  std::shared_ptr<const LinearCompressor> compressor;
  std::vector<Span<const float>> parts;
  int64_t n = 0;  // Number of elements of all parts.
  uint64_t seed = 0;
  Span<float> payload;
};

// Reads the inputs, and allocates the payload, which is output 0.
absl::Status ReadLinearEncodeInputs(tensorflow::OpKernelContext* ctx,
                                    LinearCompressorCache* compressors, LinearEncodeInputs* inputs);

// The sum is in the memory of the kernel's device.
struct LinearRecoverInputs {
  std::shared_ptr<const LinearCompressor> compressor;
  Span<const float> summed;
  int64_t n = 0;
  uint64_t seed = 0;
};

// Reads the inputs. Fails with InvalidArgument unless the sum has the size that follows from n and
// the spec.
absl::Status ReadLinearRecoverInputs(tensorflow::OpKernelContext* ctx,
                                     LinearCompressorCache* compressors,
                                     LinearRecoverInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_LINEAR_IO_H_
