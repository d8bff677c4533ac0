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
  // Kernels have more than 4096 bytes of parameters since CUDA 12.1 (write_parts.h).
  constexpr int kFirstWithLargeParameters = 12010;
  const bool is_new_enough =
      driver / 1000 >= runtime / 1000 &&
      (runtime < kFirstWithLargeParameters || driver >= kFirstWithLargeParameters);
  if (is_new_enough) return OkStatus();
  // The oldest nvcc that CMakeLists.txt takes; drivers of its major version run what it compiles.
  constexpr int kOldestCompiler = 11080;
  const int usable = driver / 1000 == kOldestCompiler / 1000 ? kOldestCompiler : driver;
  const std::string build =
      usable < kOldestCompiler ? "" : ", or build tfcompress with nvcc of CUDA " + Dotted(usable);
  return InvalidArgument("the NVIDIA driver supports CUDA ", Dotted(driver),
                         " at most, and tfcompress was built with CUDA ", Dotted(runtime),
                         "; install a newer driver", build);
}

Status CheckDriver() {
  int runtime = 0;
  TFC_RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  return CheckVersions(DriverVersion(), runtime);
}

}  // namespace device
}  // namespace tfcompress
