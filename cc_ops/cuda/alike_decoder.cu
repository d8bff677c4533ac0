#include <algorithm>
#include <utility>

#include "core/pipeline.h"
#include "cuda/alike_decoder.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/tile_sums.h"

namespace tfcompress {
namespace device {
namespace {

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

// What launches work on side by side, an element for each frame; on the host and on the device.
struct AlikeDecoder::Tables {
  CheckedFrame* checked;
  FrameTables frames;
  size_t num_bytes;
};

struct AlikeDecoder::Buffers {
  uint32_t* errors_dev;              // As num_errors().
  SectionRemainder* remainders_dev;  // Of each frame.
  size_t num_cleared_bytes;          // Those of both.
  Tables tables_dev;
  float* sums_dev;                   // As NumWideSums(), end to end.
  std::vector<GroupBuffers> groups;  // One takes the place of the other.
};

AlikeDecoder AlikeDecoder::Make(std::vector<FrameTask> tasks, std::vector<SumTarget> targets,
                                uint64_t most_group_bytes) {
  AlikeDecoder decoder;
  decoder.tasks_ = std::move(tasks);
  decoder.targets_ = std::move(targets);
  decoder.FormGroups(most_group_bytes);
  Workspace measure, measure_host;
  Buffers buffers{};
  decoder.workspace_bytes_ = decoder.Take(&measure, &buffers);
  measure_host.Take<uint32_t>(decoder.num_errors());
  decoder.TakeTables(&measure_host);
  decoder.host_bytes_ = measure_host.num_bytes();
  return decoder;
}

FrameGroup AlikeDecoder::GroupOf(const Frames& frames) const {
  return FrameGroup(Span<const FrameTask>(tasks_).subspan(frames.first, frames.count));
}

void AlikeDecoder::FormGroups(uint64_t most_bytes) {
  uint64_t num_bytes = 0, num_keys = 0;
  // Some frames of the last group, with elements if any has.
  FrameGroup open{Span<const FrameTask>()};
  for (size_t first = 0; first < tasks_.size(); first += num_tensors()) {
    const Frames frames = {first, num_tensors()};
    const FrameGroup rank = GroupOf(frames);
    const uint64_t own_bytes = rank.workspace_bytes(), own_keys = rank.num_keys();
    have_supports_ |= rank.has_supports();
    have_filters_ |= rank.has_filters();
    const bool joins = !groups_.empty() && num_bytes + own_bytes <= most_bytes &&
                       num_keys + own_keys <= kMaxElements &&
                       groups_.back().count + frames.count <= kMaxParts && open.HasKindsOf(rank);
    if (joins) {
      groups_.back().count += frames.count;
    } else {
      groups_.push_back(frames);
      num_bytes = num_keys = 0;
    }
    num_bytes += own_bytes;
    num_keys += own_keys;
    if (!joins || !open.has_elements()) open = rank;
  }
}

uint64_t AlikeDecoder::NumWideSums(const SumTarget& target) const {
  return groups_.size() > 1 && target.dtype != DType::kFloat32 ? target.n : 0;
}

AlikeDecoder::Tables AlikeDecoder::TakeTables(Workspace* workspace) const {
  const size_t begin = workspace->num_bytes();
  Tables tables;
  tables.checked = workspace->Take<CheckedFrame>(tasks_.size());
  tables.frames =
      TakeFrameTables(tasks_.size(), groups_.size(), have_supports_, have_filters_, workspace);
  tables.num_bytes = workspace->num_bytes() - begin;
  return tables;
}

size_t AlikeDecoder::Take(Workspace* workspace, Buffers* buffers) const {
  buffers->errors_dev = workspace->Take<uint32_t>(num_errors());
  buffers->remainders_dev = workspace->Take<SectionRemainder>(tasks_.size());
  buffers->num_cleared_bytes = workspace->num_bytes();
  buffers->tables_dev = TakeTables(workspace);
  uint64_t num_sums = 0;
  for (const SumTarget& target : targets_) num_sums += NumWideSums(target);
  buffers->sums_dev = workspace->Take<float>(num_sums);
  size_t num_bytes = workspace->num_bytes();
  for (const Frames& group : groups_) {
    Workspace own = *workspace;
    buffers->groups.emplace_back();
    GroupOf(group).Take(&own, &buffers->groups.back());
    num_bytes = std::max(num_bytes, own.num_bytes());
  }
  return num_bytes;
}

void AlikeDecoder::FillTables(const unsigned char* packets_dev, const Buffers& buffers,
                              const Tables& tables) const {
  float* sums_dev = buffers.sums_dev;
  for (size_t tensor = 0; tensor < num_tensors(); ++tensor) {
    const SumTarget& target = targets_[tensor];
    for (size_t i = tensor; i < tasks_.size(); i += num_tensors()) {
      uint32_t* const error_dev = buffers.errors_dev + i;
      tables.checked[i] = {{packets_dev + tasks_[i].offset, tasks_[i].frame.bytes.size(), nullptr},
                           buffers.remainders_dev + i,
                           error_dev};
      AddedValues& added = tables.frames.values[i] = {};
      added.error_dev = error_dev;
      added.dtype = target.dtype;
      added.out_dev = target.data;
      added.sum_dev = target.dtype == DType::kFloat32 ? static_cast<float*>(target.data) : sums_dev;
    }
    sums_dev += NumWideSums(target);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    GroupOf(groups_[i])
        .Fill(packets_dev, buffers.groups[i], tables.frames.From(groups_[i].first, i));
  }
}

Status AlikeDecoder::CheckFrames(const Buffers& buffers, const Tables& tables,
                                 cudaStream_t stream) const {
  const Parts<CheckedFrame> frames = {{tables.checked, tasks_.size()}, buffers.tables_dev.checked};
  for (size_t first = 0; first < tasks_.size(); first += kMaxParts) {
    const size_t count = std::min<size_t>(kMaxParts, tasks_.size() - first);
    TFC_RETURN_IF_ERROR(CheckChecksums(frames.Slice(first, count), shift_, kChecksumError, stream));
  }
  return OkStatus();
}

Status AlikeDecoder::AddGroup(size_t group, const unsigned char* packets_dev, float scale,
                              const Buffers& buffers, const Tables& tables,
                              cudaStream_t stream) const {
  const FrameGroup frames = GroupOf(groups_[group]);
  const auto [first, count] = groups_[group];
  const FrameTables own = tables.frames.From(first, group);
  const FrameTables own_dev = buffers.tables_dev.frames.From(first, group);
  TFC_RETURN_IF_ERROR(frames.DecodeSupports(packets_dev, own, own_dev, buffers.groups[group],
                                            buffers.errors_dev + tasks_.size(), stream));
  const Parts<AddedValues> values = {{own.values, count}, own_dev.values};
  if (IsCoded(frames.value_kind()))
    TFC_RETURN_IF_ERROR(ReadParameters(values, kValueError, stream));
  return SumTiles(values, num_tensors(), frames.has_supports(),
                  {group == 0, group + 1 == groups_.size()}, scale, kValueError, stream);
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
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(buffers.tables_dev.checked, tables.checked,
                                           tables.num_bytes, cudaMemcpyHostToDevice, stream));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.errors_dev, 0, buffers.num_cleared_bytes, stream));
  TFC_RETURN_IF_ERROR(CheckFrames(buffers, tables, stream));
  for (size_t group = 0; group < groups_.size(); ++group)
    TFC_RETURN_IF_ERROR(AddGroup(group, packets_dev, scale, buffers, tables, stream));
  for (size_t tensor = 0; tensor < num_tensors(); ++tensor)
    if (!IsFinite(tensor)) TFC_RETURN_IF_ERROR(FillNaN(targets_[tensor], stream));
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
  return Internal("the device refuses sections that the host accepts");
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
