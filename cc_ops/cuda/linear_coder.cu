#include <algorithm>

#include "core/float_order.h"
#include "core/registry.h"
#include "core/spec.h"
#include "cuda/binary_search.h"
#include "cuda/compensate.h"
#include "cuda/encode_state.h"
#include "cuda/frame_layout.h"
#include "cuda/launch.h"
#include "cuda/linear_coder.h"
#include "cuda/marks.h"
#include "cuda/select_largest.h"

namespace tfcompress {
namespace device {
namespace {

// Writes the listed elements of a part, which begins at element `first` of the vector.
__global__ void GatherPartKernel(DevicePart part, uint64_t first, const uint32_t* indices,
                                 uint64_t count, const EncodeState* state, float* payload) {
  const bool finite = state->nonfinite == 0;
  const uint64_t end = first + part.size;
  const uint64_t begin = FirstAfter(0, count, [&](uint64_t i) { return indices[i] >= first; });
  for (uint64_t i = begin + ThisThread(); i < count && indices[i] < end; i += NumThreads())
    payload[i] = finite ? part.data_dev[indices[i] - first] : FloatFromBits(kFloatNaNBits);
}

// Writes the listed elements of `values` or, unless `looks_up`, the first `count` values in order;
// NaN, at the first indices, if the sum is not finite.
__global__ void GatherKernel(const float* values, bool looks_up, uint64_t count,
                             const EncodeState* state, uint32_t* indices, float* gathered) {
  const bool finite = state->nonfinite == 0;
  for (uint64_t i = ThisThread(); i < count; i += NumThreads()) {
    if (!finite) indices[i] = static_cast<uint32_t>(i);
    gathered[i] = finite ? values[looks_up ? indices[i] : i] : FloatFromBits(kFloatNaNBits);
  }
}

}  // namespace

struct LinearCoder::Buffers {
  EncodeState* state_dev;
  SketchBuffers sketch;
  Marks marks;
  SelectSpace select;
  float* estimates_dev = nullptr;
  uint32_t* indices_dev = nullptr;
};

Status LinearCoder::Parse(const LinearCompressor& compressor) {
  const std::string part = PartsOf(compressor.spec(), LinearCompressor::kMaxParts)[1];
  const std::string name = NameOf(part);
  TFC_ASSIGN_OR_RETURN(kind_, DeviceLinearOf(name));
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<LinearCodec>("linear codec", name));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, part));
  if (kind_ == LinearKind::kSharedRandomK) return OkStatus();
  is_heavymix_ = params.Choice("recovery") != 0;
  rows_ = static_cast<int>(params.Int("rows"));
  columns_ = static_cast<uint32_t>(params.Int("columns"));
  return OkStatus();
}

Status LinearCoder::CheckRecovers() const {
  if (!is_heavymix_) return OkStatus();
  return InvalidArgument("spec '", spec_,
                         "': the recovery 'heavymix' of the linear codec 'count_sketch' has no "
                         "device variant; that which has: top");
}

Result<LinearCoder> LinearCoder::Make(const LinearCompressor& compressor, uint64_t n) {
  LinearCoder coder;
  coder.spec_ = compressor.spec();
  TFC_RETURN_IF_ERROR(coder.Parse(compressor).WithContext("spec '" + compressor.spec() + "'"));
  TFC_RETURN_IF_ERROR(CheckNumElements("vector", n));
  const auto size = static_cast<int64_t>(n);
  coder.n_ = static_cast<uint32_t>(n);
  coder.payload_size_ = static_cast<uint32_t>(compressor.codec().PayloadSize(size));
  coder.num_candidates_ = static_cast<uint32_t>(compressor.codec().NumCandidates(size));
  Workspace to_encode, to_recover;
  Buffers buffers;
  coder.TakeToEncode(&to_encode, &buffers);
  coder.TakeToRecover(&to_recover, &buffers);
  coder.encode_workspace_bytes_ = to_encode.num_bytes();
  coder.recover_workspace_bytes_ = to_recover.num_bytes();
  return coder;
}

void LinearCoder::TakeToEncode(Workspace* workspace, Buffers* buffers) const {
  buffers->state_dev = workspace->Take<EncodeState>(1);
  if (kind_ == LinearKind::kCountSketch) {
    TakeSketchBuffers(payload_size_, workspace, &buffers->sketch);
    return;
  }
  buffers->indices_dev = workspace->Take<uint32_t>(num_candidates_);
  TakeMarks(n_, workspace, &buffers->marks);
}

void LinearCoder::TakeToRecover(Workspace* workspace, Buffers* buffers) const {
  buffers->state_dev = workspace->Take<EncodeState>(1);
  TakeMarks(n_, workspace, &buffers->marks);
  if (kind_ == LinearKind::kSharedRandomK) return;
  buffers->estimates_dev = workspace->Take<float>(n_);
  buffers->select = TakeSelectSpace(n_, num_candidates_, workspace);
}

Status LinearCoder::ListSeeded(uint64_t seed, const Marks& marks, uint32_t* indices_dev,
                               cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  TFC_RETURN_IF_ERROR(MarkSeeded(SeededPermutation(n_, seed), num_candidates_, marks, stream));
  TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  return ListMarks(marks, num_candidates_, indices_dev, stream);
}

// Writes the payload of shared_randomk.
Status LinearCoder::Sample(Span<const DevicePart> parts, uint64_t seed, const Buffers& buffers,
                           float* payload_dev, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(BeginState(num_candidates_, buffers.state_dev, stream));
  for (const DevicePart& part : parts) {
    TFC_RETURN_IF_ERROR(
        Inspect(Alone(AsTheyAre(part.data_dev, part.size, buffers.state_dev)), stream));
  }
  TFC_RETURN_IF_ERROR(ListSeeded(seed, buffers.marks, buffers.indices_dev, stream));
  uint64_t first = 0;
  for (const DevicePart& part : parts) {
    const uint64_t most = std::min<uint64_t>(part.size, num_candidates_);
    TFC_RETURN_IF_ERROR(LaunchThreads("gather part", GatherPartKernel, most, stream, part, first,
                                      buffers.indices_dev, num_candidates_, buffers.state_dev,
                                      payload_dev));
    first += part.size;
  }
  return OkStatus();
}

Status LinearCoder::Encode(Span<const DevicePart> parts, uint64_t seed,
                           const DeviceBuffer& workspace, float* payload_dev,
                           cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, encode_workspace_bytes_));
  uint64_t size = 0;
  for (const DevicePart& part : parts) {
    if (part.size > 0 && part.data_dev == nullptr)
      return InvalidArgument("the data of a part is null");
    size += part.size;
  }
  if (size != n_) return InvalidArgument("expected a vector of ", n_, " elements, got ", size);
  if (payload_size_ == 0) return OkStatus();
  if (payload_dev == nullptr) return InvalidArgument("the payload is null");
  Workspace carve(workspace.data_dev);
  Buffers buffers;
  TakeToEncode(&carve, &buffers);
  if (kind_ == LinearKind::kSharedRandomK) return Sample(parts, seed, buffers, payload_dev, stream);
  return InsertAll(SketchHashes(rows_, columns_, seed), parts, n_, buffers.sketch, payload_dev,
                   stream);
}

// Lists the largest estimates.
Status LinearCoder::SelectEstimates(const float* summed_dev, uint64_t seed, const Buffers& buffers,
                                    uint32_t* indices_dev, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(EstimateAll(SketchHashes(rows_, columns_, seed), summed_dev, n_,
                                  buffers.estimates_dev, stream));
  const EncodedFrame estimates = ToSelectFrom(buffers.estimates_dev, buffers.select, buffers.marks,
                                              buffers.state_dev, indices_dev);
  return SelectLargestValues(buffers.marks, Alone(estimates), stream);
}

Status LinearCoder::Recover(const float* summed_dev, uint64_t seed, const DeviceBuffer& workspace,
                            uint32_t* indices_dev, float* values_dev, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(CheckRecovers());
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, recover_workspace_bytes_));
  if (num_candidates_ == 0) return OkStatus();
  if (summed_dev == nullptr || indices_dev == nullptr || values_dev == nullptr)
    return InvalidArgument("the sum or an output is null");
  Workspace carve(workspace.data_dev);
  Buffers buffers;
  TakeToRecover(&carve, &buffers);
  TFC_RETURN_IF_ERROR(BeginState(num_candidates_, buffers.state_dev, stream));
  TFC_RETURN_IF_ERROR(
      Inspect(Alone(AsTheyAre(summed_dev, payload_size_, buffers.state_dev)), stream));
  const bool looks_up = kind_ == LinearKind::kCountSketch;
  TFC_RETURN_IF_ERROR(looks_up ? SelectEstimates(summed_dev, seed, buffers, indices_dev, stream)
                               : ListSeeded(seed, buffers.marks, indices_dev, stream));
  return LaunchThreads("gather", GatherKernel, num_candidates_, stream,
                       looks_up ? buffers.estimates_dev : summed_dev, looks_up, num_candidates_,
                       buffers.state_dev, indices_dev, values_dev);
}

}  // namespace device
}  // namespace tfcompress
