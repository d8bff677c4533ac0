#include "tf/cuda/run_on_host.h"

#include <mutex>
#include <set>

#include "tensorflow/core/platform/logging.h"
#include "tf/cuda/device_memory.h"

namespace tfcompress {

void WarnOnceOfHost(const std::string& subject, const Status& reason) {
  static std::mutex* const mutex = new std::mutex;
  static std::set<std::string>* const warned = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (!warned->insert(subject).second) return;
  LOG(WARNING) << "tfcompress: " << subject
               << " runs on the host, with copies to it and back: " << reason.message();
}

absl::Status RunOnHost(tensorflow::OpKernelContext* ctx, const std::string& subject,
                       const Status& reason, const std::function<absl::Status()>& on_host,
                       int64_t* nanoseconds) {
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, on_host, nanoseconds));
  WarnOnceOfHost(subject, reason);
  return absl::OkStatus();
}

}  // namespace tfcompress
