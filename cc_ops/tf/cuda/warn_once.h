// Says once a process that something has no device variant.
#ifndef TFCOMPRESS_TF_CUDA_WARN_ONCE_H_
#define TFCOMPRESS_TF_CUDA_WARN_ONCE_H_

#include <string>

#include "core/status.h"

namespace tfcompress {

// Logs a warning, unless one was logged before for the same `subject`: that it is done on the host,
// with copies there and back, since `reason`.
void WarnOnceOfHost(const std::string& subject, const Status& reason);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_WARN_ONCE_H_
