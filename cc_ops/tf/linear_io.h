// Inputs of LinearEncode and LinearRecover, on whatever device they run.
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

// The parts of the vector, end to end, lie where the kernel runs; so does the payload.
struct LinearEncodeInputs {
  std::shared_ptr<const LinearCompressor> compressor;
  std::vector<Span<const float>> parts;
  int64_t n = 0;  // Elements of all parts.
  uint64_t seed = 0;
  Span<float> payload;
};

// Allocates the payload, too: output 0.
absl::Status ReadLinearEncodeInputs(tensorflow::OpKernelContext* ctx,
                                    LinearCompressorCache* compressors, LinearEncodeInputs* inputs);

// The sum lies where the kernel runs.
struct LinearRecoverInputs {
  std::shared_ptr<const LinearCompressor> compressor;
  Span<const float> summed;
  int64_t n = 0;
  uint64_t seed = 0;
};

// Fails with InvalidArgument where the sum is not of the size that n and the spec make.
absl::Status ReadLinearRecoverInputs(tensorflow::OpKernelContext* ctx,
                                     LinearCompressorCache* compressors,
                                     LinearRecoverInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_LINEAR_IO_H_
