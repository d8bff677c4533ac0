// What has no device variant runs on the host.
#ifndef TFCOMPRESS_TF_CUDA_RUN_ON_HOST_H_
#define TFCOMPRESS_TF_CUDA_RUN_ON_HOST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// Logs a warning that `subject` runs on the host, with copies to it and back, because of `reason`;
// once for each subject.
void WarnOnceOfHost(const std::string& subject, const Status& reason);

// Calls on_host(), which sets the outputs by the core, and measures it; warns afterwards.
absl::Status RunOnHost(tensorflow::OpKernelContext* ctx, const std::string& subject,
                       const Status& reason, const std::function<absl::Status()>& on_host,
                       int64_t* nanoseconds);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_RUN_ON_HOST_H_
