#include "tf/cuda/register_device_kernel.h"

#include "cuda/driver.h"
#include "tensorflow/core/platform/logging.h"

namespace tfcompress {

bool DriverRunsKernels() {
  static const bool runs = [] {
    const Status status = device::CheckDriver();
    if (!status.ok() && device::DriverVersion() != 0) {
      LOG(WARNING) << "tfcompress: gradients on GPUs are compressed on the CPU: "
                   << status.message();
    }
    return status.ok();
  }();
  return runs;
}

}  // namespace tfcompress
