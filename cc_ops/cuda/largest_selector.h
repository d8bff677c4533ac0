// core/sparsify/select_largest.h on the device, for vectors that travel without frames.
#ifndef TFCOMPRESS_CUDA_LARGEST_SELECTOR_H_
#define TFCOMPRESS_CUDA_LARGEST_SELECTOR_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Finds a fixed number of the largest elements of vectors of one size. Immutable: one selector
// serves several streams, with a workspace for each. Nothing here waits for the device.
class LargestSelector {
 public:
  // Fails with InvalidArgument if the vector is too large, or has fewer than `count` elements.
  static Result<LargestSelector> Make(uint64_t n, uint64_t count);

  size_t workspace_bytes() const { return workspace_bytes_; }

  // Overwrites the `count` elements of positions_dev with the positions of the elements of largest
  // magnitude, ascending; ties go to the lower position. Inf is larger than every number, NaN
  // larger than Inf. Fails with InvalidArgument, before anything is launched, if a buffer is
  // missing or too small.
  Status Select(const float* values_dev, const DeviceBuffer& workspace, int64_t* positions_dev,
                cudaStream_t stream) const;

 private:
  struct Buffers;

  LargestSelector() = default;
  void Take(Workspace* workspace, Buffers* buffers) const;

  uint32_t n_;
  uint32_t count_;
  size_t workspace_bytes_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LARGEST_SELECTOR_H_
