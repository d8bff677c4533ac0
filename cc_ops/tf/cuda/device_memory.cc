#include "tf/cuda/device_memory.h"

#include <map>
#include <numeric>

#include "cuda/cuda_status.h"

namespace tfcompress {
namespace {

// Makes the current device current again at its end. All GPUs share one pool of pinned memory,
// and where it grows, TensorFlow leaves the first of them current on threads that are not its own.
class DeviceScope {
 public:
  DeviceScope() { cudaGetDevice(&entered_); }
  ~DeviceScope() { cudaSetDevice(entered_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int entered_ = 0;
};

// Attributes that allocate host tensors in pinned memory.
tensorflow::AllocatorAttributes Pinned() {
  tensorflow::AllocatorAttributes attributes;
  attributes.set_on_host(true);
  attributes.set_gpu_compatible(true);
  return attributes;
}

Status Copy(const void* from, size_t num_bytes, void* to, cudaMemcpyKind kind,
            cudaStream_t stream) {
  if (num_bytes == 0) return OkStatus();
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, from, num_bytes, kind, stream));
  return OkStatus();
}

}  // namespace

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status AllocateOnDevice(OpKernelContext* ctx, size_t num_bytes, OwnedBuffer* buffer,
                              bool waits) {
  // TensorFlow promises an alignment of 64 bytes.
  constexpr size_t kAlignment = device::Workspace::kAlignment;
  const tensorflow::TensorShape shape({static_cast<int64_t>(num_bytes + kAlignment - 1)});
  tensorflow::AllocationAttributes attributes;
  attributes.retry_on_failure = waits;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8, shape, &buffer->owner,
                                        tensorflow::AllocatorAttributes(), attributes));
  const auto address = reinterpret_cast<uintptr_t>(buffer->owner.data());
  const uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
  buffer->data_dev = reinterpret_cast<void*>(aligned);
  buffer->num_bytes = num_bytes;
  return absl::OkStatus();
}

absl::Status AllocatePinned(OpKernelContext* ctx, size_t num_bytes, Tensor* owner) {
  const DeviceScope device;
  const tensorflow::TensorShape shape({static_cast<int64_t>(num_bytes)});
  return ctx->allocate_temp(tensorflow::DT_UINT8, shape, owner, Pinned());
}

Status CopyToHost(const void* from_dev, size_t num_bytes, void* to, cudaStream_t stream) {
  return Copy(from_dev, num_bytes, to, cudaMemcpyDeviceToHost, stream);
}

Status CopyToDevice(const void* from, size_t num_bytes, void* to_dev, cudaStream_t stream) {
  return Copy(from, num_bytes, to_dev, cudaMemcpyHostToDevice, stream);
}

Status CopyOnDevice(const void* from_dev, size_t num_bytes, void* to_dev, cudaStream_t stream) {
  return Copy(from_dev, num_bytes, to_dev, cudaMemcpyDeviceToDevice, stream);
}

Status WaitFor(cudaStream_t stream) {
  // cudaStreamSynchronize may keep a core busy.
  cudaEvent_t event = nullptr;
  TFC_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  cudaError_t error = cudaEventRecord(event, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(event);
  cudaEventDestroy(event);
  return device::FromCuda(error, "waiting for the stream");
}

// Never destroyed.
Status CopyStream(cudaStream_t* stream) {
  static thread_local auto* const streams = new std::map<int, cudaStream_t>;
  int device = 0, least = 0, greatest = 0;
  TFC_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  cudaStream_t& of_device = (*streams)[device];
  if (of_device == nullptr) {
    TFC_RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TFC_RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithPriority(&of_device, cudaStreamNonBlocking, greatest));
  }
  *stream = of_device;
  return OkStatus();
}

std::vector<int64_t> ShareTime(int64_t nanoseconds, const std::vector<uint64_t>& num_elements) {
  const double all = std::accumulate(num_elements.begin(), num_elements.end(), 0.0);
  std::vector<int64_t> shares;
  for (uint64_t own : num_elements) {
    const double share = all == 0 ? 0 : static_cast<double>(own) / all;
    shares.push_back(static_cast<int64_t>(share * static_cast<double>(nanoseconds)));
  }
  return shares;
}

}  // namespace tfcompress
