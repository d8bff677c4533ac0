#include <algorithm>

#include "core/codec.h"
#include "cuda/compensate.h"
#include "cuda/compensator.h"
#include "cuda/device_variants.h"
#include "cuda/encode_state.h"
#include "cuda/frame_layout.h"
#include "cuda/launch.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void TellFiniteKernel(const EncodeState* state, bool* finite) {
  if (ThisThread() == 0) *finite = state->nonfinite == 0;
}

}  // namespace

Result<Compensator> Compensator::Make(const std::string& memory, DType dtype, uint64_t n) {
  Compensator compensator;
  TFC_ASSIGN_OR_RETURN(compensator.memory_, DeviceMemoryOf(memory));
  TFC_RETURN_IF_ERROR(CheckNumElements("gradient", n));
  compensator.dtype_ = dtype;
  compensator.n_ = static_cast<uint32_t>(n);
  Workspace measure;
  measure.Take<EncodeState>(1);
  compensator.workspace_bytes_ = measure.num_bytes();
  return compensator;
}

Status Compensator::Compensate(const void* gradient_dev, Span<const DeviceSlot> slots,
                               const DeviceBuffer& workspace, bool* finite_dev,
                               cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  TFC_RETURN_IF_ERROR(CheckVectors(memory_, gradient_dev, slots, n_));
  if (finite_dev == nullptr) return InvalidArgument("the output for the finite flag is null");
  auto* state_dev = Workspace(workspace.data_dev).Take<EncodeState>(1);
  EncodedFrame vector{};
  vector.compensation = {{gradient_dev, dtype_, n_}, memory_, {}};
  std::copy(slots.begin(), slots.end(), vector.compensation.slots);
  vector.state_dev = state_dev;
  TFC_RETURN_IF_ERROR(BeginState(0, state_dev, stream));
  TFC_RETURN_IF_ERROR(device::Compensate(Alone(vector), stream));
  return Launch("tell finite", TellFiniteKernel, 1, kWarpThreads, stream, state_dev, finite_dev);
}

}  // namespace device
}  // namespace tfcompress
