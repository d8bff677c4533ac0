// Warns once per process that something has no device variant.
#ifndef TFCOMPRESS_TF_CUDA_WARN_ONCE_H_
#define TFCOMPRESS_TF_CUDA_WARN_ONCE_H_

#include <string>

#include "core/status.h"

namespace tfcompress {

// Logs a warning that `subject` runs on the host, with copies to it and back, because of `reason`;
// once for each subject.
void WarnOnceOfHost(const std::string& subject, const Status& reason);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_WARN_ONCE_H_
