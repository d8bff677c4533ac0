// Copies of a kernel's vectors on the host, for work that has no device variant.
#ifndef TFCOMPRESS_TF_CUDA_HOST_COPIES_H_
#define TFCOMPRESS_TF_CUDA_HOST_COPIES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// In pinned memory, as long as this lives.
class HostCopies {
 public:
  explicit HostCopies(tensorflow::OpKernelContext* ctx) : ctx_(ctx) {}
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  // Waits for copies that nobody waited for, because something failed after they began: others get
  // the memory next.
  ~HostCopies();

  // Begins to copy bytes.
  absl::Status Take(const void* from_dev, size_t num_bytes, void** copy);
  // Begins to copy vectors of n floats.
  absl::Status Take(Span<const float* const> from_dev, uint64_t n, std::vector<float*>* copies);
  // Waits for what Take began.
  absl::Status Wait();

  // Copies vectors of n floats to the device, and waits.
  absl::Status PutBack(Span<float* const> copies, uint64_t n, Span<float* const> to_dev);

 private:
  tensorflow::OpKernelContext* ctx_;
  std::vector<tensorflow::Tensor> owners_;
  bool is_copying_ = false;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_HOST_COPIES_H_
