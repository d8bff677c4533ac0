#include <algorithm>
#include <vector>

#include "core/sparsify/num_selected.h"
#include "cuda/bloom.h"
#include "cuda/compensate.h"
#include "cuda/cuda_status.h"
#include "cuda/delta_bytes.h"
#include "cuda/frame_encoder.h"
#include "cuda/frame_layout.h"
#include "cuda/grouped_sketch.h"
#include "cuda/index_sections.h"
#include "cuda/marks.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/reciprocal_log_levels.h"
#include "cuda/select_largest.h"
#include "cuda/values.h"

namespace tfcompress {
namespace device {
namespace {

DeltaCoding DeltaCodingOf(const DeviceSpec& spec) {
  return {spec.index == IndexKind::kDeltaAdaptive, spec.flag_bits};
}

const uint32_t* SupportSizeOf(const EncodedFrame& frame) { return &frame.state_dev->k; }

}  // namespace

// What the encoding of a tensor takes of the workspace.
struct FrameEncoder::Buffers {
  Marks marks;
  SelectBuffers select;
  DeltaBuffers deltas;
  DeltaWriteBuffers prefixed;
  BloomBuffers bloom;
  uint32_t* indices_dev = nullptr;     // The support; null if it is all elements.
  const uint32_t* sent_dev = nullptr;  // The same, or the indices decoded from the Bloom filter.
  float* gathered_dev = nullptr;       // Copies of values that are not sent at sent_dev.
  GroupedSketchBuffers sketch;
};

// An encoding: buffers and frame of each tensor.
struct FrameEncoder::Step {
  EncodeState* states_dev;
  EncodedFrame* frames_dev;
  std::vector<Buffers> buffers;
  std::vector<CodedBuffers> values;
  std::vector<EncodedFrame> frames_on_host;

  Parts<EncodedFrame> frames() const { return {frames_on_host, frames_dev}; }
};

bool FrameEncoder::selects_by_magnitude() const {
  return spec_.sparsifier != SparsifierKind::kDense && spec_.sparsifier != SparsifierKind::kRandomK;
}

bool FrameEncoder::moves_values() const {
  return spec_.index == IndexKind::kBloom && !GathersDecoded(spec_.policy);
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
  Workspace measure;
  Step step;
  TFC_RETURN_IF_ERROR(encoder.Take(&measure, &step));
  encoder.workspace_bytes_ = measure.num_bytes();
  return encoder;
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

Status FrameEncoder::Take(const Tensor& tensor, Workspace* workspace, Buffers* buffers) const {
  const uint32_t n = tensor.n, max_k = tensor.max_k;
  if (spec_.joint.kind != JointKind::kNone) {
    TFC_RETURN_IF_ERROR(TakeGroupedSketch(spec_.joint, max_k,
                                          tensor.max_frame_bytes - kFrameHeaderBytes, workspace,
                                          &buffers->sketch));
  }
  if (!needs_marks()) return OkStatus();
  buffers->indices_dev = workspace->Take<uint32_t>(max_k);
  buffers->sent_dev = buffers->indices_dev;
  TFC_RETURN_IF_ERROR(TakeMarks(n, workspace, &buffers->marks));
  if (spec_.sparsifier == SparsifierKind::kTopK)
    TFC_RETURN_IF_ERROR(TakeSelectBuffers(n, max_k, workspace, &buffers->select));
  if (spec_.index == IndexKind::kDeltaBinary)
    TFC_RETURN_IF_ERROR(TakeDeltaBuffers(1, max_k, workspace, &buffers->deltas));
  if (HasPrefixedDeltas(spec_.index)) {
    const DeltaCoding coding = DeltaCodingOf(spec_);
    TFC_RETURN_IF_ERROR(
        TakeDeltaWriteBuffers(1, max_k, coding.MaxBytes(max_k), workspace, &buffers->prefixed));
  }
  if (spec_.index == IndexKind::kBloom) {
    TFC_RETURN_IF_ERROR(TakeBloomBuffers(spec_.policy, BloomRate(spec_.fpr), n, max_k,
                                         tensor.max_sent, workspace, &buffers->bloom));
    buffers->sent_dev = buffers->bloom.chosen_dev;
  }
  if (moves_values()) buffers->gathered_dev = workspace->Take<float>(max_k);
  return OkStatus();
}

Status FrameEncoder::Take(Workspace* workspace, Step* step) const {
  step->states_dev = workspace->Take<EncodeState>(tensors_.size());
  step->frames_dev = workspace->Take<EncodedFrame>(tensors_.size());
  step->buffers.resize(tensors_.size());
  step->values.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (IsCoded(spec_.value.kind)) {
      TFC_RETURN_IF_ERROR(
          TakeCodedBuffers(spec_.value, tensors_[i].max_sent, workspace, &step->values[i]));
    }
    TFC_RETURN_IF_ERROR(Take(tensors_[i], workspace, &step->buffers[i]));
  }
  return OkStatus();
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

DataLengths FrameEncoder::LengthsOf(const Buffers& buffers, const CodedBuffers& values) const {
  DataLengths lengths;
  if (spec_.joint.kind != JointKind::kNone) {
    lengths.num_value_bytes_dev = buffers.sketch.num_value_bytes_dev;
    return lengths;
  }
  if (spec_.index == IndexKind::kDeltaBinary)
    lengths.num_payload_bytes_dev = buffers.deltas.num_payload_bytes_dev();
  if (HasPrefixedDeltas(spec_.index))
    lengths.num_payload_bytes_dev = buffers.prefixed.num_bytes_dev();
  if (spec_.index == IndexKind::kBloom)
    lengths.num_payload_bytes_dev = &buffers.bloom.state_dev->num_bytes;
  if (IsMeasured(spec_.value.kind)) lengths.num_value_bytes_dev = &values.params_dev->num_bytes;
  return lengths;
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

EncodedFrame FrameEncoder::FrameOf(size_t i, const FrameInput& input, const Step& step) const {
  const Tensor& tensor = tensors_[i];
  const Buffers& buffers = step.buffers[i];
  EncodedFrame frame{};
  frame.step = {{input.gradient_dev, dtype_, tensor.n}, spec_.memory, {}};
  std::copy(input.slots.begin(), input.slots.end(), frame.step.slots);
  frame.state_dev = step.states_dev + i;
  frame.known_k = tensor.k;
  frame.max_sent = tensor.max_sent;
  if (spec_.sparsifier == SparsifierKind::kTopK)
    frame.histogram_dev = buffers.select.histograms_dev[0];
  if (selects_by_magnitude()) {
    frame.candidate_words_dev = buffers.marks.words_dev;
    frame.candidate_counts_dev = buffers.marks.ends_dev;
  }
  if (needs_marks() && tensor.n > 0) {
    frame.num_kept_dev = buffers.marks.num_marked_dev();
    if (spec_.ratio == 0) frame.num_selected_dev = frame.num_kept_dev;
  }
  frame.lengths = LengthsOf(buffers, step.values[i]);
  frame.values = {CompensatedVector(frame.step), buffers.sent_dev};
  if (moves_values())
    frame.values = {{buffers.gathered_dev, DType::kFloat32, tensor.max_k}, nullptr};
  frame.sent_dev = buffers.sent_dev;
  frame.params_dev = step.values[i].params_dev;
  frame.extremes_dev = step.values[i].extremes_dev;
  std::copy_n(step.values[i].sums, 2, frame.sums);
  frame.header = HeaderOf(tensor, input.seed);
  frame.max_bytes = tensor.max_frame_bytes;
  frame.data_dev = static_cast<unsigned char*>(input.frame.data_dev);
  return frame;
}

template <typename Body>
Status FrameEncoder::ForEach(const Step& step, const Body& body) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].n > 0)
      TFC_RETURN_IF_ERROR(body(tensors_[i], step.buffers[i], step.frames_on_host[i]));
  }
  return OkStatus();
}

Status FrameEncoder::Compensate(const Step& step, cudaStream_t stream) const {
  const bool is_topk = spec_.sparsifier == SparsifierKind::kTopK;
  if (is_topk) {
    TFC_RETURN_IF_ERROR(ForEach(step, [&](const Tensor&, const Buffers& buffers, const auto&) {
      return BeginSelect(buffers.select, stream);
    }));
  }
  TFC_RETURN_IF_ERROR(Inspect(step.frames(), stream));
  if (is_topk) {
    TFC_RETURN_IF_ERROR(
        ForEach(step, [&](const Tensor&, const Buffers& buffers, const EncodedFrame& frame) {
          return FindBucket(buffers.select, frame.state_dev, stream);
        }));
  }
  if (spec_.memory.kind == MemoryKind::kNone && !selects_by_magnitude()) return OkStatus();
  return Settle(step.frames(), stream);
}

Status FrameEncoder::List(const Tensor& tensor, const Buffers& buffers, const EncodedFrame& frame,
                          cudaStream_t stream) const {
  const Marks& marks = buffers.marks;
  switch (spec_.sparsifier) {
    case SparsifierKind::kDense:
      return OkStatus();
    case SparsifierKind::kTopK:
      return SelectLargest(buffers.select, marks, CompensatedVector(frame.step), frame.state_dev,
                           buffers.indices_dev, stream);
    case SparsifierKind::kRandomK:
      TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
      TFC_RETURN_IF_ERROR(
          MarkSeeded(SeededPermutation(tensor.n, frame.header.seed), tensor.k, marks, stream));
      TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
      break;
    case SparsifierKind::kNonzero:
    case SparsifierKind::kThreshold:
      break;
  }
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  return ListMarks(marks, tensor.max_k, buffers.indices_dev, stream);
}

Status FrameEncoder::Select(const Step& step, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(
      ForEach(step, [&](const auto&... tensor) { return List(tensor..., stream); }));
  return SetSupportSizes(step.frames(), /*narrowed=*/false, stream);
}

Status FrameEncoder::Narrow(const Step& step, cudaStream_t stream) const {
  if (!Narrows(spec_.value.kind) || spec_.index == IndexKind::kImplied) return OkStatus();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].n == 0) continue;
    const Buffers& buffers = step.buffers[i];
    const EncodedFrame& frame = step.frames_on_host[i];
    const uint32_t max_k = tensors_[i].max_k;
    const SelectedValues selected = {CompensatedVector(frame.step), buffers.indices_dev};
    TFC_RETURN_IF_ERROR(MarkKept(spec_.value, selected, max_k, SupportSizeOf(frame), step.values[i],
                                 buffers.marks, stream));
    TFC_RETURN_IF_ERROR(CountMarks(buffers.marks, stream));
    TFC_RETURN_IF_ERROR(ScanMarks(buffers.marks, stream));
    TFC_RETURN_IF_ERROR(ListMarks(buffers.marks, max_k, buffers.indices_dev, stream));
  }
  return SetSupportSizes(step.frames(), /*narrowed=*/true, stream);
}

Status FrameEncoder::PrepareIndices(const Tensor& tensor, const Buffers& buffers,
                                    const EncodedFrame& frame, cudaStream_t stream) const {
  uint32_t* k_dev = &frame.state_dev->k;
  const uint32_t max_k = tensor.max_k;
  switch (spec_.index) {
    case IndexKind::kImplied:
    case IndexKind::kRaw:
    case IndexKind::kBitmap:
      return OkStatus();
    case IndexKind::kDeltaBinary:
      return MeasureDeltas(KeyLists::One(k_dev, max_k), buffers.indices_dev, buffers.deltas,
                           stream);
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      return MeasurePrefixedDeltas(DeltaCodingOf(spec_), KeyLists::One(k_dev, max_k),
                                   buffers.indices_dev, buffers.prefixed, stream);
    case IndexKind::kBloom:
      return ChooseByBloom(spec_.policy, BloomRate(spec_.fpr), frame.header.seed,
                           buffers.indices_dev, max_k, buffers.marks, buffers.bloom, k_dev, stream);
  }
  return OkStatus();
}

Status FrameEncoder::Prepare(const Tensor& tensor, const Buffers& buffers,
                             const EncodedFrame& frame, cudaStream_t stream) const {
  const SelectedValues selected = {CompensatedVector(frame.step), buffers.indices_dev};
  if (spec_.joint.kind != JointKind::kNone) {
    return PrepareGroupedSketch(selected, SupportSizeOf(frame), frame.header.seed, buffers.sketch,
                                stream);
  }
  if (moves_values()) {
    TFC_RETURN_IF_ERROR(
        GatherValues(selected, SupportSizeOf(frame), tensor.max_k, buffers.gathered_dev, stream));
  }
  return PrepareIndices(tensor, buffers, frame, stream);
}

Status FrameEncoder::Measure(const Step& step, cudaStream_t stream) const {
  if (!IsMeasured(spec_.value.kind)) return OkStatus();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const EncodedFrame& frame = step.frames_on_host[i];
    if (tensors_[i].n == 0) continue;
    TFC_RETURN_IF_ERROR(MeasureValues(spec_.value, frame.values, frame.max_sent,
                                      SupportSizeOf(frame), step.values[i], stream));
  }
  return OkStatus();
}

Status FrameEncoder::EncodeIndices(const Tensor& tensor, const Buffers& buffers,
                                   const EncodedFrame& frame, cudaStream_t stream) const {
  const uint32_t* k_dev = SupportSizeOf(frame);
  const uint32_t max_k = tensor.max_k;
  unsigned char* section_dev = frame.data_dev + kFrameHeaderBytes;
  switch (spec_.index) {
    case IndexKind::kImplied:
      return OkStatus();
    case IndexKind::kRaw:
      return WriteIndices(buffers.indices_dev, k_dev, max_k, section_dev, stream);
    case IndexKind::kBitmap:
      // topk has marked candidates; the other sparsifiers have marked their support.
      if (spec_.sparsifier == SparsifierKind::kTopK) {
        TFC_RETURN_IF_ERROR(ClearMarks(buffers.marks, stream));
        TFC_RETURN_IF_ERROR(MarkIndices(buffers.indices_dev, k_dev, max_k, buffers.marks, stream));
      }
      return WriteBitmap(buffers.marks, k_dev, section_dev, stream);
    case IndexKind::kDeltaBinary:
      return EncodeDeltas(KeyLists::One(k_dev, max_k), buffers.indices_dev, buffers.deltas,
                          section_dev, nullptr, stream);
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      return EncodePrefixedDeltas(buffers.indices_dev, k_dev, buffers.prefixed, section_dev,
                                  stream);
    case IndexKind::kBloom:
      return WriteBloom(buffers.bloom, k_dev, section_dev, stream);
  }
  return OkStatus();
}

Status FrameEncoder::EncodeSections(const Step& step, cudaStream_t stream) const {
  if (spec_.joint.kind != JointKind::kNone) {
    return ForEach(step, [&](const Tensor& tensor, const Buffers& buffers, const auto& frame) {
      return WriteGroupedSketch(tensor.n, buffers.sketch, frame.state_dev, SentSlotsOf(frame.step),
                                frame.data_dev, stream);
    });
  }
  TFC_RETURN_IF_ERROR(
      ForEach(step, [&](const auto&... tensor) { return EncodeIndices(tensor..., stream); }));
  TFC_RETURN_IF_ERROR(EncodeValues(spec_.value, step.frames(), step.values, stream));
  return ForgetSent(step.frames(), stream);
}

Status FrameEncoder::Launch(Span<const FrameInput> inputs, const DeviceBuffer& workspace,
                            cudaStream_t stream, EncodeState* states) const {
  TFC_RETURN_IF_ERROR(CheckInputs(inputs, workspace));
  Workspace carve(workspace.data_dev);
  Step step;
  TFC_RETURN_IF_ERROR(Take(&carve, &step));
  for (size_t i = 0; i < inputs.size(); ++i)
    step.frames_on_host.push_back(FrameOf(i, inputs[i], step));
  TFC_RETURN_IF_ERROR(BeginFrames(step.frames(), spec_.min_magnitude, stream));
  TFC_RETURN_IF_ERROR(Compensate(step, stream));
  TFC_RETURN_IF_ERROR(Select(step, stream));
  TFC_RETURN_IF_ERROR(Narrow(step, stream));
  TFC_RETURN_IF_ERROR(
      ForEach(step, [&](const auto&... tensor) { return Prepare(tensor..., stream); }));
  TFC_RETURN_IF_ERROR(Measure(step, stream));
  TFC_RETURN_IF_ERROR(LayOut(step.frames(), spec_.index, spec_.value, kMaxFrameBytes, stream));
  TFC_RETURN_IF_ERROR(EncodeSections(step, stream));
  TFC_RETURN_IF_ERROR(FinishFrames(step.frames(), stream));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(states, step.states_dev,
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

Status FrameEncoder::Encode(const FrameInput& input, const DeviceBuffer& workspace,
                            cudaStream_t stream, uint64_t* num_bytes) const {
  EncodeState state;
  TFC_RETURN_IF_ERROR(Launch({&input, 1}, workspace, stream, &state));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return ReadLength(state, num_bytes);
}

}  // namespace device
}  // namespace tfcompress
