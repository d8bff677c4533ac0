// Output buffers that a kernel keeps from step to step.
#ifndef TFCOMPRESS_TF_KEPT_OUTPUTS_H_
#define TFCOMPRESS_TF_KEPT_OUTPUTS_H_

#include <map>
#include <mutex>

#include "absl/status/status.h"
#include "core/huge_pages.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfcompress {

class KeptOutputs {
 public:
  // Sets output `index`: to the buffer of an earlier step, if it is of this shape, large enough for
  // glibc to map it anew in each step, and no one else holds it any more; else to a new one, in
  // large pages if it will be kept.
  absl::Status Allocate(tensorflow::OpKernelContext* ctx, int index,
                        const tensorflow::TensorShape& shape, tensorflow::Tensor** output) {
    constexpr size_t kAlwaysMapped = size_t{32} << 20;
    const std::lock_guard<std::mutex> lock(mutex_);
    tensorflow::Tensor& kept = kept_[index];
    if (kept.shape() == shape && kept.TotalBytes() >= kAlwaysMapped && kept.RefCountIsOne()) {
      ctx->set_output(index, kept);
      *output = ctx->mutable_output(index);
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(ctx->allocate_output(index, shape, output));
    const bool keeps = (*output)->TotalBytes() >= kAlwaysMapped;
    if (keeps) PreferHugePages((*output)->data(), (*output)->TotalBytes());
    kept = keeps ? **output : tensorflow::Tensor();
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::map<int, tensorflow::Tensor> kept_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_KEPT_OUTPUTS_H_
