#include "tf/cuda/device_memory.h"

#include <map>
#include <mutex>
#include <numeric>

#include "cuda/cuda_status.h"

namespace tfcompress {
namespace {

// A stream for copies from the current device, which does not wait for others. Never destroyed.
Status CopyStream(cudaStream_t* stream) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, cudaStream_t>;
  int device = 0;
  TFC_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  const std::lock_guard<std::mutex> lock(mutex);
  cudaStream_t& of_device = (*streams)[device];
  if (of_device == nullptr) {
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&of_device, cudaStreamNonBlocking));
  }
  *stream = of_device;
  return OkStatus();
}

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

absl::Status AllocatePinnedOutput(OpKernelContext* ctx, uint64_t num_bytes, Tensor** output) {
  const DeviceScope device;
  return ctx->allocate_output(0, {static_cast<int64_t>(num_bytes)}, output, Pinned());
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
  // cudaStreamSynchronize may keep a core busy.
  cudaEvent_t event = nullptr;
  TFC_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  cudaError_t error = cudaEventRecord(event, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(event);
  cudaEventDestroy(event);
  return device::FromCuda(error, "waiting for the stream");
}

Status CopyOnDevice(Span<const DeviceBytes> copies, cudaStream_t stream) {
  for (const DeviceBytes& copy : copies) {
    TFC_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(copy.to, copy.from_dev, copy.num_bytes, cudaMemcpyDeviceToDevice, stream));
  }
  return OkStatus();
}

Status CopyCompleteToHost(Span<const DeviceBytes> copies) {
  cudaStream_t stream = nullptr;
  TFC_RETURN_IF_ERROR(CopyStream(&stream));
  Status status = OkStatus();
  for (const DeviceBytes& copy : copies)
    if (status.ok()) status = CopyToHost(copy.from_dev, copy.num_bytes, copy.to, stream);
  const Status waited = WaitFor(stream);  // For those before one that failed, too.
  return status.ok() ? waited : status;
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
