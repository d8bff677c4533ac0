// The choice between a device variant and the core, the same for all kernels that have both.
#ifndef TFCOMPRESS_TF_CUDA_DEVICE_OR_HOST_H_
#define TFCOMPRESS_TF_CUDA_DEVICE_OR_HOST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/warn_once.h"
#include "tf/status_conversion.h"

namespace tfcompress {

// Calls on_host(), which sets the outputs by the core, and measures it; logs once, for the
// `subject`, the reason why it is not done on the device.
template <typename OnHost>
absl::Status RunOnHost(tensorflow::OpKernelContext* ctx, const std::string& subject,
                       const Status& reason, const OnHost& on_host, int64_t* nanoseconds) {
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, on_host, nanoseconds));
  WarnOnceOfHost(subject, reason);
  return absl::OkStatus();
}

// Calls on_device(coder) with the coder that was made, which sets `nanoseconds` itself, or
// on_host() if there is none because of an InvalidArgument: either a codec has no device variant,
// which is logged once as the `subject`, or the argument is bad and the host refuses it, too.
template <typename Coder, typename OnDevice, typename OnHost>
absl::Status OnDeviceOrHost(tensorflow::OpKernelContext* ctx, const std::string& subject,
                            const Result<Coder>& coder, const OnDevice& on_device,
                            const OnHost& on_host, int64_t* nanoseconds) {
  if (coder.ok()) return on_device(coder.value());
  if (coder.status().code() != StatusCode::kInvalidArgument) return ToTensorFlow(coder.status());
  return RunOnHost(ctx, subject, coder.status(), on_host, nanoseconds);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_DEVICE_OR_HOST_H_
