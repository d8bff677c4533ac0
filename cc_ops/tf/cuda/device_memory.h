// Stream, temporaries and copies of a kernel that runs on a GPU.
//
// TensorFlow makes the device's context the thread's own before it calls a kernel: the CUDA runtime
// that is linked into the op library works in it, on TensorFlow's stream.
#ifndef TFCOMPRESS_TF_CUDA_DEVICE_MEMORY_H_
#define TFCOMPRESS_TF_CUDA_DEVICE_MEMORY_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/status.h"
#include "cuda/stream_timer.h"
#include "cuda/workspace.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/status_conversion.h"

namespace tfcompress {

// The stream that everything of this kernel, and what feeds it, is put on.
cudaStream_t StreamOf(tensorflow::OpKernelContext* ctx);

// Bytes on the device, for as long as `owner` lives. The memory is reused in the order of the
// stream: work that is under way may still use it.
absl::Status AllocateOnDevice(tensorflow::OpKernelContext* ctx, size_t num_bytes,
                              tensorflow::Tensor* owner, device::DeviceBuffer* buffer);

// For tensors on the host that are copied to or from the device: in pinned memory.
tensorflow::AllocatorAttributes Pinned();
// Bytes in pinned memory, for as long as `owner` lives: wait for the stream before it ends.
absl::Status AllocatePinned(tensorflow::OpKernelContext* ctx, size_t num_bytes,
                            tensorflow::Tensor* owner);

// Both on the stream, without waiting for it.
Status CopyToHost(const void* from_dev, size_t num_bytes, void* to, cudaStream_t stream);
Status CopyToDevice(const void* from, size_t num_bytes, void* to_dev, cudaStream_t stream);
Status WaitFor(cudaStream_t stream);

// Does work(), which returns an absl::Status, and finds how long what it has put on the kernel's
// stream takes. Waits for it.
template <typename Work>
absl::Status TimeOnStream(tensorflow::OpKernelContext* ctx, const Work& work,
                          int64_t* nanoseconds) {
  device::StreamTimer timer;
  TF_RETURN_IF_ERROR(ToTensorFlow(timer.Start(StreamOf(ctx))));
  TF_RETURN_IF_ERROR(work());
  return ToTensorFlow(timer.Stop(StreamOf(ctx), nanoseconds));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_DEVICE_MEMORY_H_
