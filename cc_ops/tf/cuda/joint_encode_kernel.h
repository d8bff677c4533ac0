// Kernels that encode a tensor, or pieces of it, on threads that may wait. Those that wait at the
// same time and have one spec and type are encoded together: many tensors take hardly more launches
// than one, and a wait for their lengths and, to the host, one for their frames.
#ifndef TFCOMPRESS_TF_CUDA_JOINT_ENCODE_KERNEL_H_
#define TFCOMPRESS_TF_CUDA_JOINT_ENCODE_KERNEL_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "core/compressor.h"
#include "core/dtype.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/memory_spec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// A vector on the device that gets a frame.
struct FrameJob {
  const void* gradient_dev;
  uint64_t n;
  std::vector<device::DeviceSlot> slots;
};

// What was encoded of a kernel.
struct EncodedCounts {
  std::vector<int64_t> num_bytes;  // Of each frame.
  int64_t num_sent = 0;            // Elements of all frames.
};

// What a kernel wants encoded.
struct EncodeJob {
  std::shared_ptr<const Compressor> compressor;  // Null if nothing is left to do but to finish.
  DType dtype = DType::kFloat32;
  device::MemoryRule rule = device::MemoryRule::kOfGradient;
  uint64_t seed = 0;
  uint64_t num_elements = 0;     // That are read: what `frames` and `prepare` take.
  std::vector<FrameJob> frames;  // Output 0 has them end to end.
  // Puts on the stream what comes before the encoding; may be empty.
  std::function<Status(cudaStream_t)> prepare;
  // Encodes with the core, and sets the frames and, where `finish` reads them, the counts.
  std::function<absl::Status(EncodedCounts* counts)> on_host;
  // Sets the outputs after the frames. `nanoseconds` is the share of the elements in the time on
  // the stream.
  std::function<absl::Status(const EncodedCounts& counts, int64_t nanoseconds)> finish;
};

// Sets output 0, which is where packets are, to frames that were made on the host.
absl::Status OutputFrames(tensorflow::OpKernelContext* ctx, const Bytes& frames);

class JointEncodeKernel : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) final;

  // Reads the inputs, and allocates the outputs whose sizes follow from them. Called with the
  // device of `ctx` current, as the functions of the job are; must be thread-safe.
  virtual absl::Status Read(tensorflow::OpKernelContext* ctx, EncodeJob* job) = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_JOINT_ENCODE_KERNEL_H_
