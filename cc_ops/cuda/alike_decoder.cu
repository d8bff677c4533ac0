#include <algorithm>
#include <utility>

#include "core/codec.h"
#include "core/pipeline.h"
#include "core/seeded_permutation.h"
#include "cuda/alike_decoder.h"
#include "cuda/cuda_status.h"
#include "cuda/delta_bytes.h"
#include "cuda/grouped_sketch.h"
#include "cuda/index_sections.h"
#include "cuda/launch.h"
#include "cuda/marks.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/tile_sums.h"
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

__global__ void NarrowKernel(const float* sum, uint64_t n, DType dtype, uint16_t* out) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads())
    out[i] = dtype == DType::kFloat16 ? NarrowHalf(sum[i]) : FloatToBFloat16(sum[i]);
}

template <typename T>
__global__ void FillKernel(T value, uint64_t n, T* out) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads()) out[i] = value;
}

}  // namespace

Status FillNaN(const SumTarget& target, cudaStream_t stream) {
  if (target.dtype == DType::kFloat32) {
    return LaunchThreads("fill", FillKernel<uint32_t>, target.n, stream, kFloatNaNBits, target.n,
                         static_cast<uint32_t*>(target.data));
  }
  const float nan = FloatFromBits(kFloatNaNBits);
  const uint16_t half = target.dtype == DType::kFloat16 ? FloatToHalf(nan) : FloatToBFloat16(nan);
  return LaunchThreads("fill", FillKernel<uint16_t>, target.n, stream, half, target.n,
                       static_cast<uint16_t*>(target.data));
}

// What launches work on side by side, one element for each frame; on the host and on the device.
struct AlikeDecoder::Tables {
  CheckedFrame* frames;
  AddedValues* values;
  ListTables lists;
  size_t num_bytes;
};

struct AlikeDecoder::Buffers {
  uint32_t* errors_dev;              // As num_errors().
  SectionRemainder* remainders_dev;  // Of each frame.
  size_t num_cleared_bytes;          // Those of both.
  Tables tables_dev;
  ValueParams* value_params_dev;  // One for each frame of a group.
  float* wide_dev;
  uint32_t* indices_dev;  // Of a frame, or of all frames of a group.
  Marks marks;
  KeyBuffers keys;
  BloomBuffers bloom;
  ParamBuffers params;
  SketchDecodeBuffers sketch;
};

AlikeDecoder AlikeDecoder::Make(uint64_t num_packet_bytes, std::vector<FrameTask> tasks,
                                std::vector<SumTarget> targets, uint64_t most_group_bytes) {
  AlikeDecoder decoder;
  decoder.tasks_ = std::move(tasks);
  decoder.targets_ = std::move(targets);
  decoder.num_packet_bytes_ = num_packet_bytes;
  for (const SumTarget& target : decoder.targets_) {
    if (target.dtype != DType::kFloat32)
      decoder.max_wide_ = std::max(decoder.max_wide_, static_cast<uint32_t>(target.n));
  }
  decoder.groups_ = decoder.FormGroups(most_group_bytes);
  if (decoder.groups_.empty()) {
    for (const FrameTask& task : decoder.tasks_) decoder.MakeRoomFor(task);
  }
  Workspace measure, measure_host;
  Buffers buffers{};
  decoder.Take(&measure, &buffers);
  decoder.workspace_bytes_ = measure.num_bytes();
  measure_host.Take<uint32_t>(decoder.num_errors());
  decoder.TakeTables(&measure_host);
  decoder.host_bytes_ = measure_host.num_bytes();
  return decoder;
}

FrameGroups AlikeDecoder::FormGroups(uint64_t most_bytes) const {
  const bool are_floats =
      std::all_of(targets_.begin(), targets_.end(),
                  [](const SumTarget& target) { return target.dtype == DType::kFloat32; });
  return are_floats ? FrameGroups(tasks_, num_tensors(), most_bytes) : FrameGroups();
}

void AlikeDecoder::MakeRoomFor(const FrameTask& task) {
  const FrameHeader& header = task.frame.header;
  if (header.k == 0) return;
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

AlikeDecoder::Tables AlikeDecoder::TakeTables(Workspace* workspace) const {
  const size_t begin = workspace->num_bytes();
  Tables tables{};
  tables.frames = workspace->Take<CheckedFrame>(tasks_.size());
  tables.values = workspace->Take<AddedValues>(tasks_.size());
  tables.lists = groups_.TakeTables(workspace);
  tables.num_bytes = workspace->num_bytes() - begin;
  return tables;
}

void AlikeDecoder::Take(Workspace* workspace, Buffers* buffers) const {
  buffers->errors_dev = workspace->Take<uint32_t>(num_errors());
  buffers->remainders_dev = workspace->Take<SectionRemainder>(tasks_.size());
  buffers->num_cleared_bytes = workspace->num_bytes();
  buffers->tables_dev = TakeTables(workspace);
  buffers->value_params_dev =
      workspace->Take<ValueParams>(std::max<size_t>(groups_.max_frames(), 1));
  buffers->wide_dev = workspace->Take<float>(max_wide_);
  buffers->indices_dev = workspace->Take<uint32_t>(std::max(max_k_, groups_.max_keys()));
  TakeParamBuffers(params_, workspace, &buffers->params);
  TakeBloomReadBuffers(max_bloom_, workspace, &buffers->bloom);
  if (max_sketch_.max_k > 0) TakeSketchDecodeBuffers(max_sketch_, workspace, &buffers->sketch);
  TakeMarks(max_marks_, workspace, &buffers->marks);
  if (!groups_.empty()) {
    groups_.TakeBuffers(workspace, &buffers->keys);
    return;
  }
  TakeDeltaBuffers(1, max_k_, workspace, &buffers->keys.deltas);
  if (max_deltas_.num_streams > 0)
    TakeDeltaReadBuffers(1, max_deltas_, workspace, &buffers->keys.prefixed);
}

float* AlikeDecoder::SumOf(size_t tensor, const Buffers& buffers) const {
  const SumTarget& target = targets_[tensor];
  return target.dtype == DType::kFloat32 ? static_cast<float*>(target.data) : buffers.wide_dev;
}

void AlikeDecoder::FillTables(const unsigned char* packets_dev, const Buffers& buffers,
                              const Tables& tables) const {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const auto& [frame, decoder, offset] = tasks_[i];
    const unsigned char* values_dev =
        packets_dev + offset + kFrameHeaderBytes + frame.sections.indices.size();
    const uint32_t k = frame.header.k;
    const bool has_indices = frame.header.support != SupportKind::kEverything && k > 0;
    uint32_t* const error_dev = buffers.errors_dev + i;
    const ValueKind kind = groups_.empty() ? decoder.value : groups_.value_kind();
    tables.frames[i] = {
        {packets_dev + offset, frame.bytes.size(), nullptr}, buffers.remainders_dev + i, error_dev};
    tables.values[i] = {{kind, values_dev, frame.sections.values.size(), k},
                        has_indices ? buffers.indices_dev : nullptr,
                        buffers.value_params_dev,
                        error_dev,
                        SumOf(i % num_tensors(), buffers),
                        frame.header.n};
  }
  groups_.Place(tasks_, tables.values, tables.lists);
}

Status AlikeDecoder::CheckFrames(const Buffers& buffers, const Tables& tables,
                                 cudaStream_t stream) const {
  const Parts<CheckedFrame> frames = {{tables.frames, tasks_.size()}, buffers.tables_dev.frames};
  for (size_t first = 0; first < tasks_.size(); first += kMaxParts) {
    const size_t count = std::min<size_t>(kMaxParts, tasks_.size() - first);
    TFC_RETURN_IF_ERROR(CheckChecksums(frames.Slice(first, count), shift_, kChecksumError, stream));
  }
  return OkStatus();
}

// ---- One frame at a time ------------------------------------------------------------------------

Status AlikeDecoder::DecodeIndices(const FrameTask& task, const unsigned char* section_dev,
                                   const Buffers& buffers, const Parts<AddedValues>& values,
                                   cudaStream_t stream) const {
  uint32_t* error_dev = values.on_host[0].error_dev;
  const FrameHeader& header = task.frame.header;
  const uint64_t num_bytes = task.frame.sections.indices.size();
  const Marks marks = buffers.marks.Slice(0, header.n);
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
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      TFC_RETURN_IF_ERROR(DecodeDeltaSections(
          task.decoder.index, KeyLists::One(header.k), {section_dev, num_bytes, nullptr, nullptr},
          buffers.keys, kIndexError, error_dev, buffers.indices_dev, stream));
      break;
    case IndexKind::kBloom:
      return ReadBloom(task.frame.sections.indices, section_dev, header.k, header.seed, marks,
                       buffers.bloom, kIndexError, error_dev, buffers.indices_dev, stream);
  }
  return CheckIndices(values, kIndexError, stream);
}

Status AlikeDecoder::AddSketch(const FrameTask& task, const unsigned char* section_dev, float scale,
                               const Buffers& buffers, uint32_t* error_dev, float* sum_dev,
                               cudaStream_t stream) const {
  const FrameHeader& header = task.frame.header;
  const SketchSectionView section = {
      task.decoder.joint, section_dev, task.frame.sections.values.size(),
      header.n,           header.k,    header.seed};
  return AddGroupedSketch(section, scale, buffers.marks.Slice(0, header.n), buffers.sketch,
                          kJointError, error_dev, sum_dev, stream);
}

Status AlikeDecoder::AddFrame(size_t i, const unsigned char* packets_dev, float scale,
                              const Buffers& buffers, const Tables& tables,
                              cudaStream_t stream) const {
  const FrameTask& task = tasks_[i];
  if (task.frame.header.k == 0) return OkStatus();
  const unsigned char* section_dev = packets_dev + task.offset + kFrameHeaderBytes;
  const AddedValues& added = tables.values[i];
  if (task.decoder.joint != JointKind::kNone)
    return AddSketch(task, section_dev, scale, buffers, added.error_dev, added.sum_dev, stream);
  const Parts<AddedValues> values = {{&added, 1}, buffers.tables_dev.values + i};
  TFC_RETURN_IF_ERROR(DecodeIndices(task, section_dev, buffers, values, stream));
  if (IsCoded(task.decoder.value))
    TFC_RETURN_IF_ERROR(ReadParameters(values, kValueError, buffers.params, stream));
  return AddScaled(values, scale, kValueError, stream);
}

Status AlikeDecoder::SumTensor(size_t tensor, const unsigned char* packets_dev, float scale,
                               const Buffers& buffers, const Tables& tables,
                               cudaStream_t stream) const {
  const SumTarget& target = targets_[tensor];
  float* sum_dev = SumOf(tensor, buffers);
  if (target.n > 0) {
    TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(sum_dev, 0, target.n * sizeof(float), stream));
  }
  for (size_t i = tensor; i < tasks_.size(); i += num_tensors())
    TFC_RETURN_IF_ERROR(AddFrame(i, packets_dev, scale, buffers, tables, stream));
  if (target.dtype == DType::kFloat32) return OkStatus();
  return LaunchThreads("narrow", NarrowKernel, target.n, stream, sum_dev, target.n, target.dtype,
                       static_cast<uint16_t*>(target.data));
}

// ---- The frames of some ranks side by side ------------------------------------------------------

Status AlikeDecoder::AddGroup(size_t group, const unsigned char* packets_dev, float scale,
                              const Buffers& buffers, const Tables& tables,
                              cudaStream_t stream) const {
  const size_t first = groups_[group].first_frame, count = groups_[group].num_frames;
  const Parts<AddedValues> values = {{tables.values, tasks_.size()}, buffers.tables_dev.values};
  if (groups_[group].num_keys > 0) {
    TFC_RETURN_IF_ERROR(groups_.DecodeKeys(
        group, packets_dev, num_packet_bytes_, buffers.tables_dev.lists, buffers.keys, kIndexError,
        buffers.errors_dev + tasks_.size(), buffers.indices_dev, stream));
    TFC_RETURN_IF_ERROR(CheckIndices(values.Slice(first, count), kIndexError, stream));
  }
  if (IsCoded(groups_.value_kind())) {
    TFC_RETURN_IF_ERROR(
        ReadParameters(values.Slice(first, count), kValueError, buffers.params, stream));
  }
  return SumTiles(values.Slice(first, count), num_tensors(), groups_.has_indices(),
                  /*add=*/group > 0, scale, kValueError, stream);
}

Status AlikeDecoder::SumGroups(const unsigned char* packets_dev, float scale,
                               const Buffers& buffers, const Tables& tables,
                               cudaStream_t stream) const {
  for (size_t group = 0; group < groups_.size(); ++group)
    TFC_RETURN_IF_ERROR(AddGroup(group, packets_dev, scale, buffers, tables, stream));
  return OkStatus();
}

bool AlikeDecoder::IsFinite(size_t tensor) const {
  for (size_t i = tensor; i < tasks_.size(); i += num_tensors()) {
    if (tasks_[i].frame.header.nonfinite) return false;
  }
  return true;
}

Status AlikeDecoder::Launch(const unsigned char* packets_dev, float scale,
                            const DeviceBuffer& workspace, cudaStream_t stream, void* host) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  Workspace carve(workspace.data_dev), carve_host(host);
  Buffers buffers{};
  Take(&carve, &buffers);
  auto* errors = carve_host.Take<uint32_t>(num_errors());
  const Tables tables = TakeTables(&carve_host);
  FillTables(packets_dev, buffers, tables);
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(buffers.tables_dev.frames, tables.frames,
                                           tables.num_bytes, cudaMemcpyHostToDevice, stream));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.errors_dev, 0, buffers.num_cleared_bytes, stream));
  TFC_RETURN_IF_ERROR(CheckFrames(buffers, tables, stream));
  if (!groups_.empty()) TFC_RETURN_IF_ERROR(SumGroups(packets_dev, scale, buffers, tables, stream));
  for (size_t tensor = 0; tensor < num_tensors(); ++tensor) {
    if (groups_.empty())
      TFC_RETURN_IF_ERROR(SumTensor(tensor, packets_dev, scale, buffers, tables, stream));
    if (!IsFinite(tensor)) TFC_RETURN_IF_ERROR(FillNaN(targets_[tensor], stream));
  }
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
      errors, buffers.errors_dev, num_errors() * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
  return OkStatus();
}

Status AlikeDecoder::NameBrokenFrame() const {
  for (size_t tensor = 0; tensor < num_tensors(); ++tensor) {
    for (size_t i = tensor; i < tasks_.size(); i += num_tensors()) {
      SparseTensor ignored;
      const PacketFrame& frame = tasks_[i].frame;
      TFC_RETURN_IF_ERROR(DecodeFrame(frame, SerialExecutor(), &ignored).WithContext(frame.name()));
    }
  }
  return Internal("the device refuses index sections that the host accepts");
}

Status AlikeDecoder::Report(const void* host, Span<DecodeStats> stats) const {
  for (size_t tensor = 0; tensor < stats.size(); ++tensor) {
    stats[tensor].finite = IsFinite(tensor);
    for (size_t i = tensor; i < tasks_.size(); i += num_tensors())
      stats[tensor].num_bytes += static_cast<int64_t>(tasks_[i].frame.bytes.size());
  }
  const auto* errors = static_cast<const uint32_t*>(host);
  if (errors[tasks_.size()] != 0) return NameBrokenFrame();
  for (size_t tensor = 0; tensor < num_tensors(); ++tensor) {
    for (size_t i = tensor; i < tasks_.size(); i += num_tensors())
      TFC_RETURN_IF_ERROR(StatusOf(errors[i]).WithContext(tasks_[i].frame.name()));
  }
  return OkStatus();
}

}  // namespace device
}  // namespace tfcompress
