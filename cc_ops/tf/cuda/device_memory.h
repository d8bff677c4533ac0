// Stream, temporary memory and copies for kernels that run on a GPU.
//
// The CUDA runtime that is linked into the op library uses TensorFlow's context of the device and
// TensorFlow's stream. TensorFlow makes the context current before it calls a kernel; RunWithDevice
// does so on its own threads.
#ifndef TFCOMPRESS_TF_CUDA_DEVICE_MEMORY_H_
#define TFCOMPRESS_TF_CUDA_DEVICE_MEMORY_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/status.h"
#include "cuda/stream_timer.h"
#include "cuda/workspace.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/status_conversion.h"

namespace tfcompress {

// The stream of the kernel and of the ops that produce its inputs.
cudaStream_t StreamOf(tensorflow::OpKernelContext* ctx);

// Temporary memory on the device. It is reused in stream order: work that is already on the stream
// may still use it.
struct OwnedBuffer : device::DeviceBuffer {
  tensorflow::Tensor owner;
};
// Allocates bytes. Where memory is short, TensorFlow waits up to ten seconds until others free
// some, unless `waits` is false: for callers that can do with less.
absl::Status AllocateOnDevice(tensorflow::OpKernelContext* ctx, size_t num_bytes,
                              OwnedBuffer* buffer, bool waits = true);

// Allocates bytes in pinned memory, for as long as `owner` lives: wait for the stream before it
// ends.
absl::Status AllocatePinned(tensorflow::OpKernelContext* ctx, size_t num_bytes,
                            tensorflow::Tensor* owner);

// Copies on the stream, without waiting for it if the host's memory is pinned.
Status CopyToHost(const void* from_dev, size_t num_bytes, void* to, cudaStream_t stream);
Status CopyToDevice(const void* from, size_t num_bytes, void* to_dev, cudaStream_t stream);
Status CopyOnDevice(const void* from_dev, size_t num_bytes, void* to_dev, cudaStream_t stream);
// Waits for what is on the stream, and leaves the core to other threads meanwhile.
Status WaitFor(cudaStream_t stream);
// A stream of the current device and this thread for copies to the host, whose work goes before
// that of other streams: on the kernel's stream, it would come after what TensorFlow launched
// meanwhile.
Status CopyStream(cudaStream_t* stream);

// Of TimeOnStream.
struct ThenNothing {
  absl::Status operator()(const device::StreamTimer&) const { return absl::OkStatus(); }
};

// Calls work(), which returns an absl::Status, and measures how long the work that it puts on the
// kernel's stream takes; and then(timer), which can put work behind that on another stream, and is
// not measured. Waits for the stream's work, even where something fails: it may use memory of the
// caller.
template <typename Work, typename Then = ThenNothing>
absl::Status TimeOnStream(tensorflow::OpKernelContext* ctx, const Work& work, int64_t* nanoseconds,
                          const Then& then = {}) {
  device::StreamTimer timer;
  TF_RETURN_IF_ERROR(ToTensorFlow(timer.Start(StreamOf(ctx))));
  absl::Status status = work();
  Status waited = timer.Stop(StreamOf(ctx));
  if (status.ok() && waited.ok()) status = then(timer);
  if (waited.ok()) waited = timer.Wait(nanoseconds);
  return status.ok() ? ToTensorFlow(waited) : status;
}

// Divides what TimeOnStream measured in proportion to the elements.
std::vector<int64_t> ShareTime(int64_t nanoseconds, const std::vector<uint64_t>& num_elements);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_DEVICE_MEMORY_H_
