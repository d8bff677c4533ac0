#include "cuda/driver.h"

#include <cuda_runtime.h>

#include <string>

#include "cuda/cuda_status.h"

namespace tfcompress {
namespace device {
namespace {

std::string Dotted(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

int DriverVersion() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

Status CheckVersions(int driver, int runtime) {
  if (driver == 0) return InvalidArgument("there is no NVIDIA driver");
  if (driver / 1000 >= runtime / 1000) return OkStatus();
  return InvalidArgument("the NVIDIA driver supports CUDA ", Dotted(driver),
                         " at most, and tfcompress was built with CUDA ", Dotted(runtime),
                         "; install a newer driver, or build tfcompress with nvcc of CUDA ",
                         driver / 1000);
}

Status CheckDriver() {
  int runtime = 0;
  TFC_RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  return CheckVersions(DriverVersion(), runtime);
}

}  // namespace device
}  // namespace tfcompress
