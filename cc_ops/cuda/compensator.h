// Memory::Compensate on the device: the memory of a spec on its own, for vectors that travel
// without frames.
#ifndef TFCOMPRESS_CUDA_COMPENSATOR_H_
#define TFCOMPRESS_CUDA_COMPENSATOR_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/memory_spec.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Compensates tensors of one type and size with one memory. Immutable: one compensator serves
// several streams, with a workspace for each. Nothing here waits for the device.
class Compensator {
 public:
  // `memory` is the memory part of a spec, e.g. "momentum:rate=0.9". Fails with InvalidArgument if
  // it has no device variant, or if the tensor is too large.
  static Result<Compensator> Make(const std::string& memory, DType dtype, uint64_t n);

  size_t workspace_bytes() const { return workspace_bytes_; }

  // Overwrites the slots, in the core's order, with their state after the step as if nothing were
  // sent, and *finite_dev with whether all of the compensated vector is finite. If it is not, the
  // slots keep their state before the step. Fails with InvalidArgument, before anything is
  // launched, if a buffer or a slot is missing or too small.
  Status Compensate(const void* gradient_dev, Span<const DeviceSlot> slots,
                    const DeviceBuffer& workspace, bool* finite_dev, cudaStream_t stream) const;

 private:
  Compensator() = default;

  MemorySpec memory_;
  DType dtype_;
  uint32_t n_;
  size_t workspace_bytes_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COMPENSATOR_H_
