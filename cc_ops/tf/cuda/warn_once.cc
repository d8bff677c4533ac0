#include "tf/cuda/warn_once.h"

#include <mutex>
#include <set>

#include "tensorflow/core/platform/logging.h"

namespace tfcompress {

void WarnOnceOfHost(const std::string& subject, const Status& reason) {
  static std::mutex* const mutex = new std::mutex;
  static std::set<std::string>* const warned = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (!warned->insert(subject).second) return;
  LOG(WARNING) << "tfcompress: " << subject
               << " runs on the host, with copies to it and back: " << reason.message();
}

}  // namespace tfcompress
