#include <algorithm>
#include <limits>
#include <vector>

#include "core/sparsify/num_selected.h"
#include "cuda/bloom.h"
#include "cuda/code_blocks.h"
#include "cuda/coded_values.h"
#include "cuda/compensate.h"
#include "cuda/cuda_status.h"
#include "cuda/delta_bytes.h"
#include "cuda/dense_encoder.h"
#include "cuda/encoded_frame.h"
#include "cuda/frame_encoder.h"
#include "cuda/frame_keys.h"
#include "cuda/frame_layout.h"
#include "cuda/grouped_sketch.h"
#include "cuda/index_sections.h"
#include "cuda/marks.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/reciprocal_log_levels.h"
#include "cuda/resident_blocks.h"
#include "cuda/sampled_bound.h"
#include "cuda/select_largest.h"
#include "cuda/tiles.h"
#include "cuda/values.h"

namespace tfcompress {
namespace device {
namespace {

DeltaCoding DeltaCodingOf(const DeviceSpec& spec) {
  return {spec.index == IndexKind::kDeltaAdaptive, spec.flag_bits};
}

BloomSpec BloomSpecOf(const DeviceSpec& spec) { return {spec.policy, BloomRate(spec.fpr)}; }

SelectedValues ValuesAt(const uint32_t* indices_dev, const EncodedFrame& frame) {
  return {CompensatedVector(frame.compensation), indices_dev};
}

// Keys of lists that are coded together are numbered by 32 bits.
constexpr uint64_t kMaxListedKeys = std::numeric_limits<uint32_t>::max();

// Bytes of the words that prefixed deltas are written to; no frame has a longer section.
uint64_t CodeBytes(const DeltaCoding& coding, uint32_t max_k) {
  return CeilDiv(std::min(coding.MaxBytes(max_k), kMaxFrameBytes), sizeof(uint32_t)) *
         sizeof(uint32_t);
}

}  // namespace

// Buffers that tensors share, in which those of each lie end to end, and the frame of each tensor.
struct FrameEncoder::Encoding {
  EncodeState* states_dev;
  EncodedFrame* frames_dev;
  Marks marks;
  uint32_t* supports_dev = nullptr;
  float* gathered_dev = nullptr;  // Copies of values that are not sent at sent_dev.
  BloomBuffers bloom;
  FrameKeys keys;
  DeltaBuffers deltas;
  DeltaWriteBuffers prefixed;
  GroupedSketchBuffers sketch{};
  CodedBuffers values;
  std::vector<EncodedFrame> frames_on_host;

  Parts<EncodedFrame> frames() const { return {frames_on_host, frames_dev}; }
};

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

uint64_t FrameEncoder::MaxSelected() const {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += needs_marks() ? tensor.max_k : 0;
  return sum;
}

void FrameEncoder::TakeSelection(Workspace* workspace, Encoding* encoding) const {
  if (!needs_marks()) return;
  encoding->supports_dev = workspace->Take<uint32_t>(MaxSelected());
  uint64_t num_tiles = 0;
  for (const Tensor& tensor : tensors_) num_tiles += NumTiles(tensor.n);
  TakeMarks(num_tiles * kTileElements, workspace, &encoding->marks);
  uint32_t* support_dev = encoding->supports_dev;
  num_tiles = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    EncodedFrame& frame = encoding->frames_on_host[i];
    frame.support_dev = frame.sent_dev = support_dev;
    frame.marks = encoding->marks.Slice(num_tiles, tensors_[i].n);
    support_dev += tensors_[i].max_k;
    num_tiles += NumTiles(tensors_[i].n);
  }
  // A filter's selection comes after that of the support.
  const bool chooses_by_priority =
      spec_.index == IndexKind::kBloom && ChoosesByPriority(spec_.policy);
  if (spec_.sparsifier != SparsifierKind::kTopK && !chooses_by_priority) return;
  for (size_t i = 0; i < tensors_.size(); ++i)
    encoding->frames_on_host[i].select =
        TakeSelectSpace(tensors_[i].n, tensors_[i].max_k, workspace);
}

void FrameEncoder::TakeDeltas(Workspace* workspace, Encoding* encoding) const {
  const auto num_lists = static_cast<uint32_t>(tensors_.size());
  const auto max_keys = static_cast<uint32_t>(MaxSelected());
  std::vector<EncodedFrame>& frames = encoding->frames_on_host;
  TakeFrameKeys(num_lists, max_keys, workspace, &encoding->keys);
  if (spec_.index == IndexKind::kDeltaBinary) {
    TakeDeltaBuffers(num_lists, max_keys, workspace, &encoding->deltas);
    for (uint32_t i = 0; i < num_lists; ++i)
      frames[i].lengths.num_payload_bytes_dev = encoding->keys.num_bytes_dev + i;
    if (num_lists == 1)
      frames[0].lengths.num_payload_bytes_dev = encoding->deltas.num_payload_bytes_dev();
    return;
  }
  const DeltaCoding coding = DeltaCodingOf(spec_);
  uint64_t num_bytes = 0;
  for (const Tensor& tensor : tensors_) num_bytes += CodeBytes(coding, tensor.max_k);
  TakeDeltaWriteBuffers(num_lists, max_keys, num_bytes, workspace, &encoding->prefixed);
  const CodeWriteBuffers& codes = encoding->prefixed.codes;
  uint32_t* words_dev = codes.words_dev;
  for (uint32_t i = 0; i < num_lists; ++i) {
    frames[i].lengths.num_payload_bytes_dev = &codes.sizes_dev[i].num_bytes;
    frames[i].code_words_dev = words_dev;
    words_dev += CodeBytes(coding, tensors_[i].max_k) / sizeof(uint32_t);
  }
}

Status FrameEncoder::TakeSketch(Workspace* workspace, Encoding* encoding) const {
  std::vector<SketchSize> sizes;
  for (const Tensor& tensor : tensors_)
    sizes.push_back({tensor.max_k, tensor.max_frame_bytes - kFrameHeaderBytes});
  GroupedSketchBuffers* const sketch = &encoding->sketch;
  TFC_RETURN_IF_ERROR(TakeGroupedSketch(spec_.joint, sizes, workspace, sketch));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    EncodedFrame& frame = encoding->frames_on_host[i];
    const uint64_t* const num_bytes_dev = sketch->num_value_bytes_dev + i;
    frame.lengths = {num_bytes_dev, num_bytes_dev};
    frame.code_words_dev =
        sketch->prefixed.codes.words_dev + sketch->places[i].first_byte / sizeof(uint32_t);
  }
  return OkStatus();
}

Status FrameEncoder::Take(Workspace* workspace, Encoding* encoding) const {
  encoding->states_dev = workspace->Take<EncodeState>(tensors_.size());
  encoding->frames_dev = workspace->Take<EncodedFrame>(tensors_.size());
  encoding->frames_on_host.assign(tensors_.size(), EncodedFrame{});
  std::vector<EncodedFrame>& frames = encoding->frames_on_host;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    frames[i].known_k = tensors_[i].k;
    frames[i].max_k = tensors_[i].max_k;
    frames[i].max_sent = tensors_[i].max_sent;
  }
  TakeSelection(workspace, encoding);
  if (IsDeltaCode(spec_.index)) TakeDeltas(workspace, encoding);
  if (spec_.index == IndexKind::kBloom)
    encoding->bloom = TakeBloomBuffers(BloomSpecOf(spec_), encoding->marks, frames, workspace);
  if (moves_values()) encoding->gathered_dev = workspace->Take<float>(MaxSelected());
  if (spec_.joint.kind != JointKind::kNone) TFC_RETURN_IF_ERROR(TakeSketch(workspace, encoding));
  if (IsCoded(spec_.value.kind))
    TFC_RETURN_IF_ERROR(TakeCodedBuffers(spec_.value, workspace, frames, &encoding->values));
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
  frame.state_dev = encoding->states_dev + i;
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

Status FrameEncoder::Compensate(const Encoding& encoding, cudaStream_t stream) const {
  const Parts<EncodedFrame> frames = encoding.frames();
  if (encodes_in_one_pass()) return EncodeDense(spec_, frames, stream);
  if (spec_.sparsifier == SparsifierKind::kTopK) TFC_RETURN_IF_ERROR(FindBounds(frames, stream));
  return device::Compensate(frames, stream);
}

Status FrameEncoder::MarkBySeeds(const Encoding& encoding, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(ClearMarks(encoding.marks, stream));
  TFC_RETURN_IF_ERROR(MarkSeeds(encoding.frames(), stream));
  return CountMarks(encoding.marks, stream);
}

Status FrameEncoder::ListMarked(const Encoding& encoding, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(ScanMarks(encoding.marks, stream));
  return ListSupports(encoding.frames(), stream);
}

Status FrameEncoder::Select(const Encoding& encoding, cudaStream_t stream) const {
  const Parts<EncodedFrame> frames = encoding.frames();
  switch (spec_.sparsifier) {
    case SparsifierKind::kDense:
      break;
    case SparsifierKind::kTopK:
      return SelectLargest(encoding.marks, frames, stream);
    case SparsifierKind::kRandomK:
      TFC_RETURN_IF_ERROR(MarkBySeeds(encoding, stream));
      TFC_RETURN_IF_ERROR(ListMarked(encoding, stream));
      break;
    case SparsifierKind::kNonzero:
    case SparsifierKind::kThreshold:
      TFC_RETURN_IF_ERROR(ListMarked(encoding, stream));
      break;
  }
  return SetSupportSizes(frames, /*narrowed=*/false, stream);
}

Status FrameEncoder::Narrow(const Encoding& encoding, cudaStream_t stream) const {
  if (!Narrows(spec_.value.kind) || spec_.index == IndexKind::kImplied) return OkStatus();
  TFC_RETURN_IF_ERROR(
      MarkKept(spec_.value, encoding.frames(), encoding.marks, encoding.values.levels_dev, stream));
  TFC_RETURN_IF_ERROR(CountMarks(encoding.marks, stream));
  TFC_RETURN_IF_ERROR(ListMarked(encoding, stream));
  return SetSupportSizes(encoding.frames(), /*narrowed=*/true, stream);
}

Status FrameEncoder::MeasureIndices(const Encoding& encoding, cudaStream_t stream) const {
  if (spec_.index == IndexKind::kBloom) {
    if (moves_values()) {
      TFC_RETURN_IF_ERROR(
          GatherValues(encoding.frames(), encoding.supports_dev, encoding.gathered_dev, stream));
    }
    return ChooseByBloom(BloomSpecOf(spec_), encoding.frames(), encoding.marks, encoding.bloom,
                         stream);
  }
  if (!IsDeltaCode(spec_.index)) return OkStatus();
  TFC_RETURN_IF_ERROR(PlaceFrameKeys(encoding.frames(), encoding.keys, stream));
  const KeyLists lists = ListsOf(encoding.frames(), encoding.keys);
  if (HasPrefixedDeltas(spec_.index)) {
    return MeasurePrefixedDeltas(DeltaCodingOf(spec_), lists, encoding.supports_dev,
                                 encoding.prefixed, stream);
  }
  TFC_RETURN_IF_ERROR(MeasureDeltas(lists, encoding.supports_dev, encoding.deltas, stream));
  if (lists.num_lists == 1) return OkStatus();
  return SizeDeltas(lists, encoding.deltas, encoding.keys.num_bytes_dev, stream);
}

Status FrameEncoder::MeasureValues(const Encoding& encoding, cudaStream_t stream) const {
  if (spec_.joint.kind != JointKind::kNone)
    return PrepareGroupedSketch(encoding.frames(), encoding.sketch, stream);
  if (!IsMeasured(spec_.value.kind)) return OkStatus();
  return device::MeasureValues(spec_.value, encoding.frames(), encoding.values, stream);
}

Status FrameEncoder::EncodeIndices(const Encoding& encoding, cudaStream_t stream) const {
  const Parts<EncodedFrame> frames = encoding.frames();
  const bool is_alone = frames.size() == 1;
  switch (spec_.index) {
    case IndexKind::kImplied:
      return OkStatus();
    case IndexKind::kRaw:
      return WriteIndices(frames, stream);
    case IndexKind::kBitmap:
      // topk has marked candidates; the other sparsifiers have marked their support.
      if (spec_.sparsifier == SparsifierKind::kTopK) {
        TFC_RETURN_IF_ERROR(ClearMarks(encoding.marks, stream));
        TFC_RETURN_IF_ERROR(MarkSupports(frames, stream));
      }
      return WriteBitmaps(frames, stream);
    case IndexKind::kDeltaBinary:
      return EncodeDeltas(ListsOf(frames, encoding.keys), encoding.supports_dev, encoding.deltas,
                          frames, stream);
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      TFC_RETURN_IF_ERROR(ClearSections(frames, stream));
      TFC_RETURN_IF_ERROR(WritePrefixedDeltas(
          ListsOf(frames, encoding.keys), encoding.supports_dev, encoding.prefixed,
          is_alone ? nullptr : encoding.keys.code_begins_dev, stream));
      return StoreSections(frames, stream);
    case IndexKind::kBloom:
      return WriteBlooms(BloomSpecOf(spec_), frames, encoding.bloom, stream);
  }
  return OkStatus();
}

Status FrameEncoder::EncodeSections(const Encoding& encoding, cudaStream_t stream) const {
  if (encodes_in_one_pass()) return OkStatus();
  if (spec_.joint.kind != JointKind::kNone) {
    TFC_RETURN_IF_ERROR(WriteGroupedSketch(encoding.frames(), encoding.sketch, stream));
  } else {
    TFC_RETURN_IF_ERROR(EncodeIndices(encoding, stream));
    TFC_RETURN_IF_ERROR(EncodeValues(spec_.value, encoding.frames(), encoding.values, stream));
  }
  return ForgetSent(encoding.frames(), stream);
}

Status FrameEncoder::Launch(Span<const FrameInput> inputs, const DeviceBuffer& workspace,
                            cudaStream_t stream, EncodeState* states) const {
  TFC_RETURN_IF_ERROR(CheckInputs(inputs, workspace));
  Workspace carve(workspace.data_dev);
  Encoding encoding;
  TFC_RETURN_IF_ERROR(Take(&carve, &encoding));
  for (size_t i = 0; i < inputs.size(); ++i) Begin(inputs[i], i, &encoding);
  TFC_RETURN_IF_ERROR(
      BeginFrames(encoding.frames_on_host, spec_.min_magnitude, encoding.frames_dev, stream));
  TFC_RETURN_IF_ERROR(Compensate(encoding, stream));
  TFC_RETURN_IF_ERROR(Select(encoding, stream));
  TFC_RETURN_IF_ERROR(Narrow(encoding, stream));
  TFC_RETURN_IF_ERROR(MeasureIndices(encoding, stream));
  TFC_RETURN_IF_ERROR(MeasureValues(encoding, stream));
  TFC_RETURN_IF_ERROR(LayOut(encoding.frames(), spec_.index, spec_.value, stream));
  TFC_RETURN_IF_ERROR(EncodeSections(encoding, stream));
  TFC_RETURN_IF_ERROR(FinishFrames(encoding.frames(), stream));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(states, encoding.states_dev,
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
