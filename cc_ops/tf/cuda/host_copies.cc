#include "tf/cuda/host_copies.h"

#include "tf/cuda/device_memory.h"

namespace tfcompress {

HostCopies::~HostCopies() {
  if (is_copying_) static_cast<void>(WaitFor(StreamOf(ctx_)));
}

absl::Status HostCopies::Take(const void* from_dev, size_t num_bytes, void** copy) {
  owners_.emplace_back();
  TF_RETURN_IF_ERROR(AllocatePinned(ctx_, num_bytes, &owners_.back()));
  *copy = owners_.back().data();
  is_copying_ = true;
  return ToTensorFlow(CopyToHost(from_dev, num_bytes, *copy, StreamOf(ctx_)));
}

absl::Status HostCopies::Take(Span<const float* const> from_dev, uint64_t n,
                              std::vector<float*>* copies) {
  for (const float* vector_dev : from_dev) {
    void* copy;
    TF_RETURN_IF_ERROR(Take(vector_dev, n * sizeof(float), &copy));
    copies->push_back(static_cast<float*>(copy));
  }
  return absl::OkStatus();
}

absl::Status HostCopies::Wait() {
  is_copying_ = false;
  return ToTensorFlow(WaitFor(StreamOf(ctx_)));
}

absl::Status HostCopies::PutBack(Span<float* const> copies, uint64_t n, Span<float* const> to_dev) {
  is_copying_ = true;
  for (size_t i = 0; i < copies.size(); ++i) {
    TF_RETURN_IF_ERROR(
        ToTensorFlow(CopyToDevice(copies[i], n * sizeof(float), to_dev[i], StreamOf(ctx_))));
  }
  return Wait();
}

}  // namespace tfcompress
