#include "core/codec.h"
#include "cuda/compensate.h"
#include "cuda/encode_state.h"
#include "cuda/frame_layout.h"
#include "cuda/largest_selector.h"
#include "cuda/marks.h"
#include "cuda/select_largest.h"
#include "cuda/wide_indices.h"

namespace tfcompress {
namespace device {

struct LargestSelector::Buffers {
  EncodeState* state_dev;
  Marks marks;
  SelectSpace select;
  uint32_t* indices_dev;
};

Result<LargestSelector> LargestSelector::Make(uint64_t n, uint64_t count) {
  TFC_RETURN_IF_ERROR(CheckNumElements("vector", n));
  if (count > n) return InvalidArgument("a vector of ", n, " elements has no ", count, " largest");
  LargestSelector selector;
  selector.n_ = static_cast<uint32_t>(n);
  selector.count_ = static_cast<uint32_t>(count);
  Workspace measure;
  Buffers buffers;
  selector.Take(&measure, &buffers);
  selector.workspace_bytes_ = measure.num_bytes();
  return selector;
}

void LargestSelector::Take(Workspace* workspace, Buffers* buffers) const {
  buffers->state_dev = workspace->Take<EncodeState>(1);
  buffers->indices_dev = workspace->Take<uint32_t>(count_);
  TakeMarks(n_, workspace, &buffers->marks);
  buffers->select = TakeSelectSpace(n_, count_, workspace);
}

Status LargestSelector::Select(const float* values_dev, const DeviceBuffer& workspace,
                               int64_t* positions_dev, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  if (count_ == 0) return OkStatus();
  if (values_dev == nullptr || positions_dev == nullptr)
    return InvalidArgument("the values or the positions are null");
  Workspace carve(workspace.data_dev);
  Buffers buffers;
  Take(&carve, &buffers);
  TFC_RETURN_IF_ERROR(BeginState(count_, buffers.state_dev, stream));
  const EncodedFrame vector = ToSelectFrom(values_dev, buffers.select, buffers.marks,
                                           buffers.state_dev, buffers.indices_dev);
  TFC_RETURN_IF_ERROR(SelectLargestValues(buffers.marks, Alone(vector), stream));
  return WidenIndices(buffers.indices_dev, count_, positions_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
