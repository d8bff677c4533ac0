#include "cuda/launch.h"
#include "cuda/wide_indices.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void WidenIndicesKernel(const uint32_t* indices, uint64_t count, int64_t* wide) {
  for (uint64_t i = ThisThread(); i < count; i += NumThreads()) wide[i] = indices[i];
}

}  // namespace

Status WidenIndices(const uint32_t* indices_dev, uint64_t count, int64_t* wide_dev,
                    cudaStream_t stream) {
  return LaunchThreads("widen indices", WidenIndicesKernel, count, stream, indices_dev, count,
                       wide_dev);
}

}  // namespace device
}  // namespace tfcompress
