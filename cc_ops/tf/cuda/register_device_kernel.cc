#include "tf/cuda/register_device_kernel.h"

#include <cstdlib>
#include <string_view>

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

bool PacketsAreOnDevice() {
  static const bool on_device = [] {
    const char* const value = std::getenv("TFC_PACKETS");
    return value != nullptr && std::string_view(value) == "device";
  }();
  return on_device;
}

}  // namespace tfcompress
