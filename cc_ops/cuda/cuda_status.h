// Conversion of CUDA runtime errors to Status.
#ifndef TFCOMPRESS_CUDA_CUDA_STATUS_H_
#define TFCOMPRESS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include "core/status.h"

namespace tfcompress {
namespace device {

// Returns Internal with the failed operation and CUDA's name and description of the error, or
// InvalidArgument if the build has no code for this GPU, as where a part has no device variant. The
// runtime forgets the error: CUB would return it from a later call that did not fail.
inline Status FromCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return OkStatus();
  cudaGetLastError();
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion) {
    return InvalidArgument("built for other GPUs than this one, by TFC_CUDA_ARCHITECTURES (", what,
                           ": ", cudaGetErrorName(error), ")");
  }
  return Internal(what, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error));
}

}  // namespace device
}  // namespace tfcompress

// Returns from the enclosing function when a call of the CUDA runtime fails.
#define TFC_RETURN_IF_CUDA_ERROR(call) \
  TFC_RETURN_IF_ERROR(::tfcompress::device::FromCuda((call), #call))

#endif  // TFCOMPRESS_CUDA_CUDA_STATUS_H_
