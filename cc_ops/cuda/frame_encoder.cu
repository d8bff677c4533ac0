#include <algorithm>

#include "core/sparsify/num_selected.h"
#include "cuda/bloom.h"
#include "cuda/compensate.h"
#include "cuda/cuda_status.h"
#include "cuda/delta_bytes.h"
#include "cuda/frame_encoder.h"
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

}  // namespace

struct FrameEncoder::Buffers {
  EncodeState* state_dev;
  Marks marks;
  SelectBuffers select;
  DeltaBuffers deltas;
  DeltaWriteBuffers prefixed;
  BloomBuffers bloom;
  uint32_t* indices_dev = nullptr;     // The support; null if it is all elements.
  const uint32_t* sent_dev = nullptr;  // The same, or the indices decoded from the Bloom filter.
  float* gathered_dev = nullptr;       // Copies of values that are not sent at sent_dev.
  CodedBuffers values;
  GroupedSketchBuffers sketch;
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
  FrameEncoder encoder;
  TFC_ASSIGN_OR_RETURN(encoder.spec_, DeviceSpecOf(compressor));
  encoder.spec_.memory.rule = rule;
  TFC_RETURN_IF_ERROR(CheckNumElements("gradient", n));
  encoder.dtype_ = dtype;
  encoder.n_ = static_cast<uint32_t>(n);
  const bool has_ratio = encoder.spec_.ratio > 0;
  encoder.max_k_ = has_ratio ? static_cast<uint32_t>(NumSelected(encoder.spec_.ratio, n))
                             : static_cast<uint32_t>(n);
  const bool is_known = has_ratio || encoder.spec_.sparsifier == SparsifierKind::kDense;
  encoder.k_ = is_known ? encoder.max_k_ : 0;
  encoder.support_ = compressor.support_kind();
  encoder.index_id_ = compressor.index_id();
  encoder.value_id_ = compressor.value_id();
  const bool is_p0 =
      encoder.spec_.index == IndexKind::kBloom && encoder.spec_.policy == BloomPolicy::kP0;
  encoder.max_sent_ = is_p0 ? encoder.n_ : encoder.max_k_;
  uint64_t max_section_bytes = compressor.MaxSectionBytes(encoder.n_, encoder.max_k_);
  if (is_p0) {
    max_section_bytes += encoder.spec_.value.SectionBytes(encoder.max_sent_) -
                         encoder.spec_.value.SectionBytes(encoder.max_k_);
  }
  encoder.max_frame_bytes_ = std::min(kMaxFrameBytes, kFrameHeaderBytes + max_section_bytes);
  Workspace measure;
  Buffers buffers;
  TFC_RETURN_IF_ERROR(encoder.Take(&measure, &buffers));
  encoder.workspace_bytes_ = measure.num_bytes();
  return encoder;
}

Status FrameEncoder::Take(Workspace* workspace, Buffers* buffers) const {
  buffers->state_dev = workspace->Take<EncodeState>(1);
  if (IsCoded(spec_.value.kind))
    TFC_RETURN_IF_ERROR(TakeCodedBuffers(spec_.value, max_sent_, workspace, &buffers->values));
  if (spec_.joint.kind != JointKind::kNone) {
    TFC_RETURN_IF_ERROR(TakeGroupedSketch(spec_.joint, max_k_, max_frame_bytes_ - kFrameHeaderBytes,
                                          workspace, &buffers->sketch));
  }
  if (!needs_marks()) return OkStatus();
  buffers->indices_dev = workspace->Take<uint32_t>(max_k_);
  TFC_RETURN_IF_ERROR(TakeMarks(n_, workspace, &buffers->marks));
  if (spec_.sparsifier == SparsifierKind::kTopK)
    TFC_RETURN_IF_ERROR(TakeSelectBuffers(n_, max_k_, workspace, &buffers->select));
  if (spec_.index == IndexKind::kDeltaBinary)
    TFC_RETURN_IF_ERROR(TakeDeltaBuffers(1, max_k_, workspace, &buffers->deltas));
  if (HasPrefixedDeltas(spec_.index)) {
    const DeltaCoding coding = DeltaCodingOf(spec_);
    TFC_RETURN_IF_ERROR(
        TakeDeltaWriteBuffers(1, max_k_, coding.MaxBytes(max_k_), workspace, &buffers->prefixed));
  }
  if (spec_.index == IndexKind::kBloom) {
    TFC_RETURN_IF_ERROR(TakeBloomBuffers(spec_.policy, BloomRate(spec_.fpr), n_, max_k_, max_sent_,
                                         workspace, &buffers->bloom));
  }
  if (moves_values()) buffers->gathered_dev = workspace->Take<float>(max_k_);
  return OkStatus();
}

Status FrameEncoder::CheckArguments(const void* gradient_dev, Span<const DeviceSlot> slots,
                                    const DeviceBuffer& workspace,
                                    const DeviceBuffer& frame) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  if (frame.data_dev == nullptr || frame.num_bytes < max_frame_bytes_) {
    return InvalidArgument("the frame needs room for ", max_frame_bytes_, " bytes, got ",
                           frame.data_dev == nullptr ? 0 : frame.num_bytes);
  }
  return CheckVectors(spec_.memory, gradient_dev, slots, n_);
}

// Runs the two passes over n; with a memory, they write the compensated vector.
Status FrameEncoder::Compensate(const Compensation& step, const Buffers& buffers,
                                cudaStream_t stream) const {
  const bool is_topk = spec_.sparsifier == SparsifierKind::kTopK;
  if (is_topk) TFC_RETURN_IF_ERROR(BeginSelect(buffers.select, stream));
  uint32_t* histogram_dev = is_topk ? buffers.select.histograms_dev[0] : nullptr;
  TFC_RETURN_IF_ERROR(Inspect(step, histogram_dev, buffers.state_dev, stream));
  if (is_topk) TFC_RETURN_IF_ERROR(FindBucket(buffers.select, buffers.state_dev, stream));
  if (spec_.memory.kind == MemoryKind::kNone && !selects_by_magnitude()) return OkStatus();
  return Settle(step, selects_by_magnitude() ? &buffers.marks : nullptr, buffers.state_dev, stream);
}

// Lists the support and sets its size.
Status FrameEncoder::Select(const DenseVector& dense, uint64_t seed, const Buffers& buffers,
                            cudaStream_t stream) const {
  const Marks& marks = buffers.marks;
  const uint64_t* num_marked_dev = nullptr;
  switch (spec_.sparsifier) {
    case SparsifierKind::kDense:
      break;
    case SparsifierKind::kTopK:
      TFC_RETURN_IF_ERROR(SelectLargest(buffers.select, marks, dense, buffers.state_dev,
                                        buffers.indices_dev, stream));
      break;
    case SparsifierKind::kRandomK:
      TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
      TFC_RETURN_IF_ERROR(MarkSeeded(SeededPermutation(n_, seed), k_, marks, stream));
      TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
      TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
      TFC_RETURN_IF_ERROR(ListMarks(marks, max_k_, buffers.indices_dev, stream));
      break;
    case SparsifierKind::kNonzero:
    case SparsifierKind::kThreshold:
      TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
      TFC_RETURN_IF_ERROR(ListMarks(marks, max_k_, buffers.indices_dev, stream));
      num_marked_dev = marks.num_marked_dev();
      break;
  }
  return SetSupportSize(num_marked_dev, buffers.state_dev, stream);
}

Status FrameEncoder::Narrow(const DenseVector& dense, const Buffers& buffers,
                            cudaStream_t stream) const {
  if (!Narrows(spec_.value.kind) || spec_.index == IndexKind::kImplied) return OkStatus();
  const Marks& marks = buffers.marks;
  TFC_RETURN_IF_ERROR(MarkKept(spec_.value, {dense, buffers.indices_dev}, max_k_,
                               &buffers.state_dev->k, buffers.values, marks, stream));
  TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ListMarks(marks, max_k_, buffers.indices_dev, stream));
  return SetSupportSize(marks.num_marked_dev(), buffers.state_dev, stream);
}

Status FrameEncoder::PrepareIndices(uint64_t seed, Buffers* buffers,
                                    const uint64_t** num_payload_bytes_dev,
                                    cudaStream_t stream) const {
  uint32_t* k_dev = &buffers->state_dev->k;
  buffers->sent_dev = buffers->indices_dev;
  switch (spec_.index) {
    case IndexKind::kImplied:
    case IndexKind::kRaw:
    case IndexKind::kBitmap:
      return OkStatus();
    case IndexKind::kDeltaBinary:
      *num_payload_bytes_dev = buffers->deltas.num_payload_bytes_dev();
      return MeasureDeltas(KeyLists::One(k_dev, max_k_), buffers->indices_dev, buffers->deltas,
                           stream);
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      *num_payload_bytes_dev = buffers->prefixed.num_bytes_dev();
      return MeasurePrefixedDeltas(DeltaCodingOf(spec_), KeyLists::One(k_dev, max_k_),
                                   buffers->indices_dev, buffers->prefixed, stream);
    case IndexKind::kBloom:
      *num_payload_bytes_dev = &buffers->bloom.state_dev->num_bytes;
      buffers->sent_dev = buffers->bloom.chosen_dev;
      return ChooseByBloom(spec_.policy, BloomRate(spec_.fpr), seed, buffers->indices_dev, max_k_,
                           buffers->marks, buffers->bloom, k_dev, stream);
  }
  return OkStatus();
}

Status FrameEncoder::PrepareSections(const DenseVector& dense, uint64_t seed, Buffers* buffers,
                                     DataLengths* lengths, cudaStream_t stream) const {
  if (spec_.joint.kind == JointKind::kNone) {
    const uint32_t* k_dev = &buffers->state_dev->k;
    if (moves_values()) {
      TFC_RETURN_IF_ERROR(GatherValues({dense, buffers->indices_dev}, k_dev, max_k_,
                                       buffers->gathered_dev, stream));
    }
    TFC_RETURN_IF_ERROR(PrepareIndices(seed, buffers, &lengths->num_payload_bytes_dev, stream));
    if (!IsMeasured(spec_.value.kind)) return OkStatus();
    lengths->num_value_bytes_dev = &buffers->values.params_dev->num_bytes;
    return MeasureValues(spec_.value, ValuesToSend(dense, *buffers), max_sent_, k_dev,
                         buffers->values, stream);
  }
  lengths->num_value_bytes_dev = buffers->sketch.num_value_bytes_dev;
  return PrepareGroupedSketch({dense, buffers->indices_dev}, &buffers->state_dev->k, seed,
                              buffers->sketch, stream);
}

SelectedValues FrameEncoder::ValuesToSend(const DenseVector& dense, const Buffers& buffers) const {
  if (!moves_values()) return {dense, buffers.sent_dev};
  return {{buffers.gathered_dev, DType::kFloat32, max_k_}, nullptr};
}

Status FrameEncoder::EncodeIndices(const Buffers& buffers, unsigned char* section_dev,
                                   cudaStream_t stream) const {
  const uint32_t* k_dev = &buffers.state_dev->k;
  switch (spec_.index) {
    case IndexKind::kImplied:
      return OkStatus();
    case IndexKind::kRaw:
      return WriteIndices(buffers.indices_dev, k_dev, max_k_, section_dev, stream);
    case IndexKind::kBitmap:
      // topk has marked candidates; the other sparsifiers have marked their support.
      if (spec_.sparsifier == SparsifierKind::kTopK) {
        TFC_RETURN_IF_ERROR(ClearMarks(buffers.marks, stream));
        TFC_RETURN_IF_ERROR(MarkIndices(buffers.indices_dev, k_dev, max_k_, buffers.marks, stream));
      }
      return WriteBitmap(buffers.marks, k_dev, section_dev, stream);
    case IndexKind::kDeltaBinary:
      return EncodeDeltas(KeyLists::One(k_dev, max_k_), buffers.indices_dev, buffers.deltas,
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

Status FrameEncoder::EncodeSections(const Compensation& step, uint64_t seed, const Buffers& buffers,
                                    unsigned char* frame_dev, cudaStream_t stream) const {
  const DenseVector dense = CompensatedVector(step);
  if (spec_.joint.kind != JointKind::kNone) {
    return WriteGroupedSketch(n_, buffers.sketch, buffers.state_dev, SentSlotsOf(step), frame_dev,
                              stream);
  }
  TFC_RETURN_IF_ERROR(EncodeIndices(buffers, frame_dev + kFrameHeaderBytes, stream));
  const SentResidual residual = {SentSlotsOf(step).residual, buffers.sent_dev};
  TFC_RETURN_IF_ERROR(EncodeValues(spec_.value, ValuesToSend(dense, buffers), max_sent_, seed,
                                   buffers.values, buffers.state_dev, residual, frame_dev, stream));
  return ForgetSent(step, buffers.sent_dev, max_sent_, buffers.state_dev, stream);
}

Status FrameEncoder::Launch(const void* gradient_dev, Span<const DeviceSlot> slots, uint64_t seed,
                            const DeviceBuffer& workspace, const DeviceBuffer& frame,
                            cudaStream_t stream, EncodeState* state) const {
  TFC_RETURN_IF_ERROR(CheckArguments(gradient_dev, slots, workspace, frame));
  Workspace carve(workspace.data_dev);
  Buffers buffers;
  TFC_RETURN_IF_ERROR(Take(&carve, &buffers));
  EncodeState* state_dev = buffers.state_dev;
  auto* frame_dev = static_cast<unsigned char*>(frame.data_dev);
  Compensation step = {{gradient_dev, dtype_, n_}, spec_.memory, {}};
  std::copy(slots.begin(), slots.end(), step.slots);
  const DenseVector dense = CompensatedVector(step);

  TFC_RETURN_IF_ERROR(BeginState(k_, spec_.min_magnitude, state_dev, stream));
  DataLengths lengths{};
  if (n_ > 0) {
    TFC_RETURN_IF_ERROR(Compensate(step, buffers, stream));
    TFC_RETURN_IF_ERROR(Select(dense, seed, buffers, stream));
    TFC_RETURN_IF_ERROR(Narrow(dense, buffers, stream));
    TFC_RETURN_IF_ERROR(PrepareSections(dense, seed, &buffers, &lengths, stream));
  }
  TFC_RETURN_IF_ERROR(
      LayOut(n_, spec_.index, spec_.value, lengths, kMaxFrameBytes, state_dev, stream));
  if (n_ > 0) {
    TFC_RETURN_IF_ERROR(EncodeSections(step, seed, buffers, frame_dev, stream));
  }
  FrameHeader header;
  header.dtype = dtype_;
  header.support = support_;
  header.n = n_;
  header.index_id = index_id_;
  header.value_id = value_id_;
  header.seed = seed;
  TFC_RETURN_IF_ERROR(
      FinishFrame(MakeWireHeader(header), max_frame_bytes_, state_dev, frame_dev, stream));

  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(state, state_dev, sizeof(*state), cudaMemcpyDeviceToHost, stream));
  return OkStatus();
}

Status FrameEncoder::ReadLength(const EncodeState& state, uint64_t* num_bytes) {
  if (state.too_long != 0) {
    return InvalidArgument("the frame would exceed the limit of ", kMaxFrameBytes, " bytes");
  }
  *num_bytes = state.num_bytes;
  return OkStatus();
}

Status FrameEncoder::Encode(const void* gradient_dev, Span<const DeviceSlot> slots, uint64_t seed,
                            const DeviceBuffer& workspace, const DeviceBuffer& frame,
                            cudaStream_t stream, uint64_t* num_bytes) const {
  EncodeState state;
  TFC_RETURN_IF_ERROR(Launch(gradient_dev, slots, seed, workspace, frame, stream, &state));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return ReadLength(state, num_bytes);
}

}  // namespace device
}  // namespace tfcompress
