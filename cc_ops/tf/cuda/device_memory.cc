#include "tf/cuda/device_memory.h"

#include "cuda/cuda_status.h"

namespace tfcompress {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status AllocateOnDevice(OpKernelContext* ctx, size_t num_bytes, Tensor* owner,
                              device::DeviceBuffer* buffer) {
  // TensorFlow promises an alignment of 64 bytes.
  constexpr size_t kAlignment = device::Workspace::kAlignment;
  const tensorflow::TensorShape shape({static_cast<int64_t>(num_bytes + kAlignment - 1)});
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8, shape, owner));
  const auto address = reinterpret_cast<uintptr_t>(owner->data());
  const uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
  *buffer = {reinterpret_cast<void*>(aligned), num_bytes};
  return absl::OkStatus();
}

tensorflow::AllocatorAttributes Pinned() {
  tensorflow::AllocatorAttributes attributes;
  attributes.set_on_host(true);
  attributes.set_gpu_compatible(true);
  return attributes;
}

absl::Status AllocatePinned(OpKernelContext* ctx, size_t num_bytes, Tensor* owner) {
  const tensorflow::TensorShape shape({static_cast<int64_t>(num_bytes)});
  return ctx->allocate_temp(tensorflow::DT_UINT8, shape, owner, Pinned());
}

Status CopyToHost(const void* from_dev, size_t num_bytes, void* to, cudaStream_t stream) {
  if (num_bytes == 0) return OkStatus();
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(to, from_dev, num_bytes, cudaMemcpyDeviceToHost, stream));
  return OkStatus();
}

Status CopyToDevice(const void* from, size_t num_bytes, void* to_dev, cudaStream_t stream) {
  if (num_bytes == 0) return OkStatus();
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(to_dev, from, num_bytes, cudaMemcpyHostToDevice, stream));
  return OkStatus();
}

Status WaitFor(cudaStream_t stream) {
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return OkStatus();
}

}  // namespace tfcompress
