#include <algorithm>
#include <limits>
#include <vector>

#include "core/sparsify/num_selected.h"
#include "cuda/ceil_div.h"
#include "cuda/cuda_status.h"
#include "cuda/dense_encoder.h"
#include "cuda/frame_encoder.h"
#include "cuda/frame_encoding.h"
#include "cuda/frame_layout.h"
#include "cuda/resident_blocks.h"

namespace tfcompress {
namespace device {
namespace {

SelectedValues ValuesAt(const uint32_t* indices_dev, const EncodedFrame& frame) {
  return {CompensatedVector(frame.compensation), indices_dev};
}

// Keys of lists that are coded together are numbered by 32 bits.
constexpr uint64_t kMaxListedKeys = std::numeric_limits<uint32_t>::max();

}  // namespace

bool FrameEncoder::selects_by_magnitude() const {
  return spec_.sparsifier != SparsifierKind::kDense && spec_.sparsifier != SparsifierKind::kRandomK;
}

bool FrameEncoder::moves_values() const {
  return spec_.index == IndexKind::kBloom && !GathersDecoded(spec_.policy);
}

bool FrameEncoder::encodes_in_one_pass() const {
  const auto fits = [&](const Tensor& tensor) {
    return kFrameHeaderBytes + spec_.value.SectionBytes(tensor.n) <= tensor.max_frame_bytes;
  };
  return EncodesInOnePass(spec_) && std::all_of(tensors_.begin(), tensors_.end(), fits);
}

bool FrameEncoder::needs_marks() const { return spec_.sparsifier != SparsifierKind::kDense; }

Result<FrameEncoder> FrameEncoder::Make(const Compressor& compressor, DType dtype, uint64_t n,
                                        MemoryRule rule) {
  return Make(compressor, dtype, Span<const uint64_t>(&n, 1), rule);
}

Result<FrameEncoder> FrameEncoder::Make(const Compressor& compressor, DType dtype,
                                        Span<const uint64_t> sizes, MemoryRule rule) {
  if (sizes.empty() || sizes.size() > kMaxParts)
    return InvalidArgument("an encoder has 1 to ", kMaxParts, " tensors, got ", sizes.size());
  TFC_RETURN_IF_ERROR(CheckHasCode());
  FrameEncoder encoder;
  TFC_ASSIGN_OR_RETURN(encoder.spec_, DeviceSpecOf(compressor));
  encoder.spec_.memory.rule = rule;
  encoder.dtype_ = dtype;
  encoder.support_ = compressor.support_kind();
  encoder.index_id_ = compressor.index_id();
  encoder.value_id_ = compressor.value_id();
  for (uint64_t n : sizes) {
    TFC_ASSIGN_OR_RETURN(const Tensor tensor, encoder.Describe(compressor, n));
    encoder.tensors_.push_back(tensor);
  }
  if (encoder.MaxSelected() > kMaxListedKeys) {
    return InvalidArgument("tensors encoded together select at most ", kMaxListedKeys,
                           " elements, got ", encoder.MaxSelected());
  }
  Workspace measure;
  Encoding encoding;
  TFC_RETURN_IF_ERROR(encoder.Take(&measure, &encoding));
  encoder.workspace_bytes_ = measure.num_bytes();
  TFC_RETURN_IF_ERROR(encoder.CheckWorkspace());
  return encoder;
}

Status FrameEncoder::CheckWorkspace() const {
  uint64_t num_elements = 0;
  for (const Tensor& tensor : tensors_) num_elements += tensor.n;
  const uint64_t most =
      std::max(kMostWorkspaceBytes, Workspace::kMostBytesAnElement * num_elements);
  if (workspace_bytes_ <= most) return OkStatus();
  return InvalidArgument("the workspace would have ", workspace_bytes_, " bytes, the limit is ",
                         most, " for ", num_elements, " elements");
}

Result<FrameEncoder::Tensor> FrameEncoder::Describe(const Compressor& compressor,
                                                    uint64_t n) const {
  TFC_RETURN_IF_ERROR(CheckNumElements("gradient", n));
  Tensor tensor;
  tensor.n = static_cast<uint32_t>(n);
  const bool has_ratio = spec_.ratio > 0;
  tensor.max_k = has_ratio ? static_cast<uint32_t>(NumSelected(spec_.ratio, n)) : tensor.n;
  const bool is_known = has_ratio || spec_.sparsifier == SparsifierKind::kDense;
  tensor.k = is_known ? tensor.max_k : 0;
  const bool is_p0 = spec_.index == IndexKind::kBloom && spec_.policy == BloomPolicy::kP0;
  tensor.max_sent = is_p0 ? tensor.n : tensor.max_k;
  uint64_t max_section_bytes = compressor.MaxSectionBytes(tensor.n, tensor.max_k);
  if (is_p0) {
    max_section_bytes +=
        spec_.value.SectionBytes(tensor.max_sent) - spec_.value.SectionBytes(tensor.max_k);
  }
  tensor.max_frame_bytes = std::min(kMaxFrameBytes, kFrameHeaderBytes + max_section_bytes);
  return tensor;
}

Status FrameEncoder::CheckInputs(Span<const FrameInput> inputs,
                                 const DeviceBuffer& workspace) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  if (inputs.size() != tensors_.size())
    return InvalidArgument("expected ", tensors_.size(), " vectors, got ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DeviceBuffer& frame = inputs[i].frame;
    const uint64_t most = tensors_[i].max_frame_bytes;
    if (frame.data_dev == nullptr || frame.num_bytes < most) {
      return InvalidArgument("the frame needs room for ", most, " bytes, got ",
                             frame.data_dev == nullptr ? 0 : frame.num_bytes);
    }
    TFC_RETURN_IF_ERROR(
        CheckVectors(spec_.memory, inputs[i].gradient_dev, inputs[i].slots, tensors_[i].n));
  }
  return OkStatus();
}

WireHeader FrameEncoder::HeaderOf(const Tensor& tensor, uint64_t seed) const {
  FrameHeader header;
  header.dtype = dtype_;
  header.support = support_;
  header.n = tensor.n;
  header.index_id = index_id_;
  header.value_id = value_id_;
  header.seed = seed;
  return MakeWireHeader(header);
}

void FrameEncoder::Begin(const FrameInput& input, size_t i, Encoding* encoding) const {
  const Tensor& tensor = tensors_[i];
  EncodedFrame& frame = encoding->frames_on_host[i];
  frame.compensation = {{input.gradient_dev, dtype_, tensor.n}, spec_.memory, {}};
  std::copy(input.slots.begin(), input.slots.end(), frame.compensation.slots);
  frame.state_dev = encoding->tables.states_dev + i;
  frame.marks_by_magnitude = selects_by_magnitude();
  if (IsDeltaCode(spec_.index) && tensors_.size() > 1)
    frame.list_size_dev = encoding->keys.lists.sizes_dev + i;
  frame.values = ValuesAt(frame.sent_dev, frame);
  if (moves_values()) {
    const float* own_dev = encoding->gathered_dev + (frame.support_dev - encoding->supports_dev);
    frame.values = {{own_dev, DType::kFloat32, tensor.max_k}, nullptr};
  }
  frame.header = HeaderOf(tensor, input.seed);
  frame.max_bytes = tensor.max_frame_bytes;
  frame.data_dev = static_cast<unsigned char*>(input.frame.data_dev);
}

Status FrameEncoder::Launch(Span<const FrameInput> inputs, const DeviceBuffer& workspace,
                            cudaStream_t stream, EncodeState* states) const {
  TFC_RETURN_IF_ERROR(CheckInputs(inputs, workspace));
  Workspace carve(workspace.data_dev);
  Encoding encoding;
  TFC_RETURN_IF_ERROR(Take(&carve, &encoding));
  for (size_t i = 0; i < inputs.size(); ++i) Begin(inputs[i], i, &encoding);
  TFC_RETURN_IF_ERROR(BeginFrames(encoding.frames_on_host, spec_.min_magnitude,
                                  encoding.tables.frames_dev, stream));
  TFC_RETURN_IF_ERROR(Compensate(encoding, stream));
  TFC_RETURN_IF_ERROR(Select(encoding, stream));
  TFC_RETURN_IF_ERROR(Narrow(encoding, stream));
  TFC_RETURN_IF_ERROR(MeasureIndices(encoding, stream));
  TFC_RETURN_IF_ERROR(MeasureValues(encoding, stream));
  TFC_RETURN_IF_ERROR(LayOut(encoding.frames(), spec_.index, spec_.value, stream));
  TFC_RETURN_IF_ERROR(EncodeSections(encoding, stream));
  TFC_RETURN_IF_ERROR(FinishFrames(encoding.frames(), stream));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(states, encoding.tables.states_dev,
                                           tensors_.size() * sizeof(EncodeState),
                                           cudaMemcpyDeviceToHost, stream));
  return OkStatus();
}

Status FrameEncoder::ReadLength(const EncodeState& state, uint64_t* num_bytes) {
  if (state.too_long != 0) {
    return InvalidArgument("the frame would exceed the limit of ", kMaxFrameBytes, " bytes");
  }
  *num_bytes = state.num_bytes;
  return OkStatus();
}

Status FrameEncoder::CopyFrames(Span<const FramePlace> places, PacketMemory memory,
                                const DeviceBuffer& workspace, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  if (places.size() != tensors_.size())
    return InvalidArgument("expected ", tensors_.size(), " places, got ", places.size());
  Workspace carve(workspace.data_dev);
  const PartItems words = CountItems(Span<const Tensor>(tensors_), [](const Tensor& tensor) {
    return CeilDiv(tensor.max_frame_bytes, sizeof(uint32_t));
  });
  return device::CopyFrames(TakeTables(&carve).frames_dev, places, memory, words, stream);
}

Status FrameEncoder::Encode(const FrameInput& input, const DeviceBuffer& workspace,
                            cudaStream_t stream, uint64_t* num_bytes) const {
  EncodeState state;
  TFC_RETURN_IF_ERROR(Launch({&input, 1}, workspace, stream, &state));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return ReadLength(state, num_bytes);
}

}  // namespace device
}  // namespace tfcompress
