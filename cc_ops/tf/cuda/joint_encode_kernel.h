// Kernels that encode a tensor to a frame, on threads that may wait. Those that wait at the same
// time and have one spec and type are encoded together: many tensors take hardly more launches than
// one, and a wait for their lengths and one for their frames.
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
#include "core/status.h"
#include "cuda/memory_spec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// What a kernel wants encoded. Vectors are on the device, of n elements each.
struct EncodeJob {
  std::shared_ptr<const Compressor> compressor;  // Null if nothing is left to encode.
  DType dtype = DType::kFloat32;
  device::MemoryRule rule = device::MemoryRule::kOfGradient;
  const void* gradient_dev = nullptr;
  uint64_t n = 0;
  std::vector<device::DeviceSlot> slots;
  uint64_t seed = 0;
  // Puts on the stream what comes before the encoding; may be empty.
  std::function<Status(cudaStream_t)> prepare;
  // Encodes with the core, and sets the frame and the number of its elements.
  std::function<absl::Status(int64_t* num_sent)> on_host;
};

class JointEncodeKernel : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) final;

  // Both are called with the device of `ctx` current, and must be thread-safe.
  // Reads the inputs, and allocates the outputs whose sizes follow from them.
  virtual absl::Status Read(tensorflow::OpKernelContext* ctx, EncodeJob* job) = 0;
  // Sets the outputs after the frame, which is output 0 and has `num_sent` elements. `nanoseconds`
  // is the share of its elements in the time on the stream.
  virtual absl::Status Finish(tensorflow::OpKernelContext* ctx, int64_t num_sent,
                              int64_t nanoseconds) = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_JOINT_ENCODE_KERNEL_H_
