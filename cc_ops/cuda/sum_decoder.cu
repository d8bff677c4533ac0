#include <algorithm>

#include "core/bit_io.h"
#include "core/entropy/delta_bytes.h"
#include "core/seeded_permutation.h"
#include "cuda/bloom.h"
#include "cuda/cuda_status.h"
#include "cuda/delta_bytes.h"
#include "cuda/grouped_sketch.h"
#include "cuda/index_sections.h"
#include "cuda/launch.h"
#include "cuda/marks.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/sum_decoder.h"
#include "cuda/values.h"

namespace tfcompress {
namespace device {
namespace {

// Errors of a frame: the first of these is reported.
enum ErrorBits : uint32_t {
  kChecksumError = 1,
  kIndexError = 2,
  kValueError = 4,
  kJointError = 8,
};

Status StatusOf(uint32_t error) {
  if (error & kChecksumError) {
    return DataLoss("the checksum is not that of the bytes: they were changed on the way");
  }
  if (error & kIndexError) {
    return DataLoss("index section: not k strictly increasing indices below n");
  }
  if (error & kValueError) return DataLoss("value section: not k finite values");
  if (error & kJointError) return DataLoss("value section: not k elements of its joint codec");
  return OkStatus();
}

// Checks the lengths of the sections, before any of their bytes is read.
Status CheckLengths(const Frame& frame, const DeviceDecoder& decoder) {
  const uint64_t k = frame.header.k;
  const uint64_t found = frame.sections.indices.size();
  if (decoder.joint != JointKind::kNone) {  // The value section's headers are read on the device.
    if (found == 0) return OkStatus();
    return DataLoss("index section: expected 0 bytes, found ", found);
  }
  const uint64_t width = decoder.value == ValueKind::kRaw ? sizeof(float) : sizeof(uint16_t);
  if (!IsCoded(decoder.value) && frame.sections.values.size() != k * width) {
    return DataLoss("value section: expected ", k * width, " bytes, found ",
                    frame.sections.values.size());
  }
  if (HasRanks(decoder.value) && frame.sections.values.size() < PackedBytes(k, BitsFor(k))) {
    return DataLoss("value section: ", k, " ranks do not fit in ", frame.sections.values.size(),
                    " bytes");
  }
  switch (decoder.index) {
    case IndexKind::kImplied:
      return OkStatus();
    case IndexKind::kRaw:
      if (found == k * sizeof(uint32_t)) return OkStatus();
      return DataLoss("index section: expected ", k * sizeof(uint32_t), " bytes, found ", found);
    case IndexKind::kBitmap:
      if (found == PackedBytes(frame.header.n, 1)) return OkStatus();
      return DataLoss("index section: expected ", PackedBytes(frame.header.n, 1), " bytes, found ",
                      found);
    case IndexKind::kDeltaBinary:
      if (found >= NumFlagBytes(k) + k) return OkStatus();
      return DataLoss("index section: truncated at delta flags: needs ", NumFlagBytes(k) + k,
                      " bytes, ", found, " left");
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      if (k <= 8 * found) return OkStatus();
      return DataLoss("index section: ", k, " keys do not fit in ", found, " bytes");
    case IndexKind::kBloom:  // Its header is read on the device.
      return OkStatus();
  }
  return OkStatus();
}

__global__ void NarrowKernel(const float* sum, uint64_t n, DType dtype, uint16_t* out) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads())
    out[i] = dtype == DType::kFloat16 ? FloatToHalf(sum[i]) : FloatToBFloat16(sum[i]);
}

template <typename T>
__global__ void FillKernel(T value, uint64_t n, T* out) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads()) out[i] = value;
}

// The first n of a larger number of marks.
Marks MarksOf(const Marks& marks, uint32_t n) {
  Marks first = marks;
  first.n = n;
  return first;
}

// Fills the target with NaN, with the bits that the core uses for each type.
Status FillNaN(const DeviceTarget& target, cudaStream_t stream) {
  if (target.dtype == DType::kFloat32) {
    return LaunchThreads("fill", FillKernel<uint32_t>, target.n, stream, kFloatNaNBits, target.n,
                         static_cast<uint32_t*>(target.data_dev));
  }
  const float nan = FloatFromBits(kFloatNaNBits);
  const uint16_t half = target.dtype == DType::kFloat16 ? FloatToHalf(nan) : FloatToBFloat16(nan);
  return LaunchThreads("fill", FillKernel<uint16_t>, target.n, stream, half, target.n,
                       static_cast<uint16_t*>(target.data_dev));
}

}  // namespace

struct SumDecoder::Buffers {
  uint32_t* errors_dev;      // One for each frame.
  uint32_t* remainders_dev;  // Checksum remainder of each frame; directly after the errors.
  float* wide_dev;
  uint32_t* indices_dev;
  Marks marks;
  DeltaBuffers deltas;
  DeltaReadBuffers prefixed;
  BloomBuffers bloom;
  ParamBuffers params;
  SketchDecodeBuffers sketch;
};

Result<SumDecoder> SumDecoder::Make(const PacketsView& packets, Span<const int64_t> positions,
                                    Span<const DeviceTarget> targets) {
  if (positions.size() != targets.size()) {
    return InvalidArgument("expected one position for each of ", targets.size(), " tensors, got ",
                           positions.size());
  }
  TFC_ASSIGN_OR_RETURN(const std::vector<PacketFrame> frames,
                       ReadPackets(packets, positions, [&](size_t i, const FrameHeader& header) {
                         return CheckTensor(header, targets[i].n, targets[i].dtype);
                       }));
  SumDecoder decoder;
  decoder.positions_.assign(positions.begin(), positions.end());
  decoder.targets_.assign(targets.begin(), targets.end());
  decoder.num_packet_bytes_ = packets.bytes.size();
  for (size_t tensor = 0; tensor < targets.size(); ++tensor) {
    if (targets[tensor].dtype != DType::kFloat32)
      decoder.max_wide_ = std::max(decoder.max_wide_, static_cast<uint32_t>(targets[tensor].n));
    for (size_t i = tensor; i < frames.size(); i += targets.size()) {
      FrameTask task = {frames[i], {}, 0};
      task.offset = static_cast<uint64_t>(frames[i].bytes.data() - packets.bytes.data());
      if (frames[i].header.k > 0) {
        const std::string name = frames[i].name();
        const Result<DeviceDecoder> known = DeviceDecoderOf(frames[i].header);
        if (!known.ok()) return known.status().WithContext(name);
        task.decoder = known.value();
        TFC_RETURN_IF_ERROR(CheckLengths(frames[i], task.decoder).WithContext(name));
        decoder.MakeRoomFor(task);
      }
      decoder.tasks_.push_back(task);
    }
  }
  Workspace measure;
  Buffers buffers{};
  TFC_RETURN_IF_ERROR(decoder.Take(&measure, &buffers));
  decoder.workspace_bytes_ = measure.num_bytes();
  return decoder;
}

void SumDecoder::MakeRoomFor(const FrameTask& task) {
  const FrameHeader& header = task.frame.header;
  const FrameSections& sections = task.frame.sections;
  const IndexKind index = task.decoder.index;
  const bool is_sketch = task.decoder.joint != JointKind::kNone;
  params_.Add(task.decoder.value, header.k);
  if (HasPrefixedDeltas(index)) max_deltas_.Cover(ExtentOf(1, header.k, sections.indices.size()));
  if (is_sketch) max_sketch_.max_k = std::max(max_sketch_.max_k, header.k);
  if (task.decoder.joint == JointKind::kSkcompress) {
    max_sketch_.max_compressed.Cover(ExtentOf(kMaxSketchLists, header.k, sections.values.size()));
  }
  if (index == IndexKind::kBloom) max_bloom_.Cover(sections.indices, header.n, header.k);
  if (header.support == SupportKind::kIndexSection || task.decoder.is_seeded)
    max_k_ = std::max(max_k_, header.k);
  if (is_sketch || task.decoder.is_seeded || index == IndexKind::kBitmap ||
      index == IndexKind::kBloom)
    max_marks_ = std::max(max_marks_, header.n);
}

Status SumDecoder::Take(Workspace* workspace, Buffers* buffers) const {
  buffers->errors_dev = workspace->Take<uint32_t>(2 * tasks_.size());
  buffers->remainders_dev = buffers->errors_dev + tasks_.size();
  buffers->wide_dev = workspace->Take<float>(max_wide_);
  buffers->indices_dev = workspace->Take<uint32_t>(max_k_);
  TakeParamBuffers(params_, workspace, &buffers->params);
  TFC_RETURN_IF_ERROR(TakeBloomReadBuffers(max_bloom_, workspace, &buffers->bloom));
  if (max_sketch_.max_k > 0)
    TFC_RETURN_IF_ERROR(TakeSketchDecodeBuffers(max_sketch_, workspace, &buffers->sketch));
  TFC_RETURN_IF_ERROR(TakeMarks(max_marks_, workspace, &buffers->marks));
  TFC_RETURN_IF_ERROR(TakeDeltaBuffers(1, max_k_, workspace, &buffers->deltas));
  if (max_deltas_.num_streams == 0) return OkStatus();
  return TakeDeltaReadBuffers(1, max_deltas_, workspace, &buffers->prefixed);
}

// Sets indices_dev to the support of a frame, or sets its error.
Status SumDecoder::DecodeIndices(const FrameTask& task, const unsigned char* section_dev,
                                 const Buffers& buffers, uint32_t* error_dev,
                                 cudaStream_t stream) const {
  const FrameHeader& header = task.frame.header;
  const uint64_t num_bytes = task.frame.sections.indices.size();
  const Marks marks = MarksOf(buffers.marks, header.n);
  switch (task.decoder.index) {
    case IndexKind::kImplied:
      if (!task.decoder.is_seeded) return OkStatus();
      TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
      TFC_RETURN_IF_ERROR(
          MarkSeeded(SeededPermutation(header.n, header.seed), header.k, marks, stream));
      TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
      TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
      return ListMarks(marks, header.k, buffers.indices_dev, stream);
    case IndexKind::kRaw:
      TFC_RETURN_IF_ERROR(ReadIndices(section_dev, header.k, buffers.indices_dev, stream));
      break;
    case IndexKind::kBitmap:
      return ReadBitmap(section_dev, header.k, marks, kIndexError, error_dev, buffers.indices_dev,
                        stream);
    case IndexKind::kDeltaBinary:
      TFC_RETURN_IF_ERROR(DecodeDeltas(KeyLists::One(header.k),
                                       {section_dev, num_bytes, nullptr, nullptr}, buffers.deltas,
                                       kIndexError, error_dev, buffers.indices_dev, stream));
      break;
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag: {
      const CodeSections section = {section_dev, num_bytes, nullptr, nullptr};
      TFC_RETURN_IF_ERROR(DecodePrefixedDeltas(
          task.decoder.index == IndexKind::kDeltaAdaptive, KeyLists::One(header.k), section,
          buffers.prefixed, kIndexError, error_dev, buffers.indices_dev, stream));
      TFC_RETURN_IF_ERROR(
          CheckSectionEnd(num_bytes, buffers.prefixed.codes, kIndexError, error_dev, stream));
      break;
    }
    case IndexKind::kBloom:
      return ReadBloom(task.frame.sections.indices, section_dev, header.k, header.seed, marks,
                       buffers.bloom, kIndexError, error_dev, buffers.indices_dev, stream);
  }
  return CheckIndices(buffers.indices_dev, header.k, header.n, kIndexError, error_dev, stream);
}

Status SumDecoder::AddSketch(const FrameTask& task, const unsigned char* section_dev, float scale,
                             const Buffers& buffers, uint32_t* error_dev, float* sum_dev,
                             cudaStream_t stream) const {
  const FrameHeader& header = task.frame.header;
  const SketchSectionView section = {
      task.decoder.joint, section_dev, task.frame.sections.values.size(),
      header.n,           header.k,    header.seed};
  return AddGroupedSketch(section, scale, MarksOf(buffers.marks, header.n), buffers.sketch,
                          kJointError, error_dev, sum_dev, stream);
}

Status SumDecoder::AddFrame(size_t i, const unsigned char* packets_dev, float scale,
                            const Buffers& buffers, float* sum_dev, cudaStream_t stream) const {
  const FrameTask& task = tasks_[i];
  const Frame& frame = task.frame;
  const unsigned char* frame_dev = packets_dev + task.offset;
  uint32_t* error_dev = buffers.errors_dev + i;
  uint32_t* remainder_dev = buffers.remainders_dev + i;
  const FrameBytes bytes = {frame_dev, frame.bytes.size(), nullptr};
  TFC_RETURN_IF_ERROR(AddSectionRemainder(bytes, shift_, remainder_dev, stream));
  TFC_RETURN_IF_ERROR(
      CheckChecksum(bytes, shift_, remainder_dev, kChecksumError, error_dev, stream));
  if (frame.header.k == 0) return OkStatus();

  const unsigned char* section_dev = frame_dev + kFrameHeaderBytes;
  if (task.decoder.joint != JointKind::kNone)
    return AddSketch(task, section_dev, scale, buffers, error_dev, sum_dev, stream);
  TFC_RETURN_IF_ERROR(DecodeIndices(task, section_dev, buffers, error_dev, stream));
  const bool is_everything = frame.header.support == SupportKind::kEverything;
  const ValueSectionView values = {task.decoder.value, section_dev + frame.sections.indices.size(),
                                   frame.sections.values.size(), frame.header.k};
  return AddScaled(values, is_everything ? nullptr : buffers.indices_dev, scale, kValueError,
                   buffers.params, error_dev, sum_dev, stream);
}

bool SumDecoder::IsFinite(size_t tensor) const {
  for (size_t rank = 0; rank < num_ranks(); ++rank) {
    if (tasks_[tensor * num_ranks() + rank].frame.header.nonfinite) return false;
  }
  return true;
}

Status SumDecoder::SumTensor(size_t tensor, const unsigned char* packets_dev, float scale,
                             const Buffers& buffers, cudaStream_t stream) const {
  const DeviceTarget& target = targets_[tensor];
  const bool in_place = target.dtype == DType::kFloat32;
  float* sum_dev = in_place ? static_cast<float*>(target.data_dev) : buffers.wide_dev;
  if (target.n > 0) {
    TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(sum_dev, 0, target.n * sizeof(float), stream));
  }
  for (size_t rank = 0; rank < num_ranks(); ++rank) {
    TFC_RETURN_IF_ERROR(
        AddFrame(tensor * num_ranks() + rank, packets_dev, scale, buffers, sum_dev, stream));
  }
  if (!IsFinite(tensor)) return FillNaN(target, stream);
  if (in_place) return OkStatus();
  return LaunchThreads("narrow", NarrowKernel, target.n, stream, sum_dev, target.n, target.dtype,
                       static_cast<uint16_t*>(target.data_dev));
}

Status SumDecoder::Launch(const unsigned char* packets_dev, float scale,
                          const DeviceBuffer& workspace, cudaStream_t stream,
                          Span<uint32_t> errors) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  if (packets_dev == nullptr && num_packet_bytes_ > 0)
    return InvalidArgument("the packets are null");
  for (const DeviceTarget& target : targets_) {
    if (target.data_dev == nullptr && target.n > 0) return InvalidArgument("a target is null");
  }
  if (tasks_.empty()) return OkStatus();
  Workspace carve(workspace.data_dev);
  Buffers buffers{};
  TFC_RETURN_IF_ERROR(Take(&carve, &buffers));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.errors_dev, 0, 2 * tasks_.size() * sizeof(uint32_t), stream));
  for (size_t tensor = 0; tensor < targets_.size(); ++tensor)
    TFC_RETURN_IF_ERROR(SumTensor(tensor, packets_dev, scale, buffers, stream));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(errors.data(), buffers.errors_dev,
                                           errors.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                                           stream));
  return OkStatus();
}

Status SumDecoder::Report(Span<const uint32_t> errors, Span<DecodeStats> stats) const {
  for (size_t tensor = 0; tensor < stats.size(); ++tensor) {
    stats[tensor].finite = IsFinite(tensor);
    for (size_t rank = 0; rank < num_ranks(); ++rank) {
      stats[tensor].num_bytes +=
          static_cast<int64_t>(tasks_[tensor * num_ranks() + rank].frame.bytes.size());
    }
  }
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto rank = static_cast<int64_t>(i % num_ranks());
    TFC_RETURN_IF_ERROR(
        StatusOf(errors[i]).WithContext(FrameName(rank, positions_[i / num_ranks()])));
  }
  return OkStatus();
}

Status SumDecoder::DecodeSum(const unsigned char* packets_dev, float scale,
                             const DeviceBuffer& workspace, cudaStream_t stream,
                             Span<DecodeStats> stats) const {
  std::vector<uint32_t> errors(num_frames());
  TFC_RETURN_IF_ERROR(Launch(packets_dev, scale, workspace, stream, Span<uint32_t>(errors)));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return Report(errors, stats);
}

}  // namespace device
}  // namespace tfcompress
