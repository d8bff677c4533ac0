// Kernels for GPUs that wait for their stream, on threads that may.
//
// TensorFlow calls kernels on a thread of its executor, and launches the ops behind them only when
// they return: one that waits there leaves the GPU without work. These kernels return at once. The
// work that they put on TensorFlow's stream later, from another thread, may then follow work of ops
// that were called after them. That is safe:
// - Inputs: the work that makes them is on the stream before a kernel is called, and they are held
//   until it is done.
// - Outputs: ops that read them are called when the kernel is done, with its work on the stream.
// - Temporary memory: whoever freed it had put his work on the stream before, and whoever takes it
//   next does so afterwards.
#ifndef TFCOMPRESS_TF_CUDA_STREAM_KERNEL_H_
#define TFCOMPRESS_TF_CUDA_STREAM_KERNEL_H_

#include <functional>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// Calls run() on a thread that may wait, with the device current that is so on this thread;
// anywhere, with an error, if that fails. TensorFlow makes it current on this thread only.
void RunWithDevice(std::function<void(absl::Status)> run);

class StreamKernel : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) final;

 protected:
  // Computes the outputs, with the device of `ctx` current, and may wait for the stream. Must be
  // thread-safe.
  virtual absl::Status Run(tensorflow::OpKernelContext* ctx) = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_STREAM_KERNEL_H_
