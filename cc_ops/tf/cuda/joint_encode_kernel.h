// Kernels that encode a tensor, or pieces of it, on threads that may wait. Those that wait at the
// same time and have one spec and type are encoded together: many tensors take hardly more launches
// than one, and a thread waits for all at once.
#ifndef TFCOMPRESS_TF_CUDA_JOINT_ENCODE_KERNEL_H_
#define TFCOMPRESS_TF_CUDA_JOINT_ENCODE_KERNEL_H_

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/encode_call.h"

namespace tfcompress {

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
