// Frames as output 0, in pinned memory of the host: the all-gather takes them there.
#ifndef TFCOMPRESS_TF_CUDA_FRAME_OUTPUT_H_
#define TFCOMPRESS_TF_CUDA_FRAME_OUTPUT_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/frame_encoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"

namespace tfcompress {

// Allocates the output; a length follows from the data, so that the host knows it only afterwards.
absl::Status AllocateFrames(tensorflow::OpKernelContext* ctx, uint64_t num_bytes,
                            tensorflow::Tensor** frames);
// Sets the output to frames that were made on the host.
absl::Status OutputFrames(tensorflow::OpKernelContext* ctx, const Bytes& frames);

// A vector on the device, and the memory's slots.
struct EncodeTask {
  const void* gradient_dev;
  std::vector<device::DeviceSlot> slots;
  uint64_t seed;
};
// Encodes on the device, after what `prepare` puts on the stream, and sets the output. Sets the
// number of elements in the frame and the time on the stream.
absl::Status EncodeOnDevice(tensorflow::OpKernelContext* ctx, const device::FrameEncoder& encoder,
                            const EncodeTask& task, int64_t* num_sent, int64_t* nanoseconds,
                            const std::function<Status(cudaStream_t)>& prepare = {});

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_FRAME_OUTPUT_H_
