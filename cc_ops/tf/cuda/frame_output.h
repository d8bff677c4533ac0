// Frames as output 0, in pinned memory of the host: the all-gather takes them there.
#ifndef TFCOMPRESS_TF_CUDA_FRAME_OUTPUT_H_
#define TFCOMPRESS_TF_CUDA_FRAME_OUTPUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// Allocates the output; a length follows from the data, so that the host knows it only afterwards.
absl::Status AllocateFrames(tensorflow::OpKernelContext* ctx, uint64_t num_bytes,
                            tensorflow::Tensor** frames);
// Sets the output to frames that were made on the host.
absl::Status OutputFrames(tensorflow::OpKernelContext* ctx, const Bytes& frames);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_FRAME_OUTPUT_H_
