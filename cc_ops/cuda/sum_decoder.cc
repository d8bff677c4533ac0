#include "cuda/sum_decoder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/bit_io.h"
#include "core/entropy/delta_bytes.h"
#include "core/registry.h"
#include "cuda/ceil_div.h"
#include "cuda/cuda_status.h"
#include "cuda/resident_blocks.h"

namespace tfcompress {
namespace device {
namespace {

// Checks the lengths of the sections, before any of their bytes is read.
Status CheckLengths(const Frame& frame, const DeviceDecoder& decoder) {
  const uint64_t k = frame.header.k;
  const uint64_t found = frame.sections.indices.size();
  if (decoder.joint != JointKind::kNone) {  // The device reads the headers inside.
    if (found != 0) return DataLoss("index section: expected 0 bytes, found ", found);
    if (k == 0) return OkStatus();
    const SparseCodec* joint = DecoderById<SparseCodec>(frame.header.value_id);
    return CheckSectionBytes("value section", frame.sections.values,
                             joint->MinEncodedBytes(frame.header.n, frame.header.k));
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

// Reads which codecs the frames have, and checks the lengths of their sections.
Result<std::vector<FrameTask>> TasksOf(ByteSpan packets, Span<const PacketFrame> frames) {
  std::vector<FrameTask> tasks;
  for (const PacketFrame& frame : frames) {
    FrameTask task = {frame, {}, static_cast<uint64_t>(frame.bytes.data() - packets.data())};
    if (frame.header.k > 0) {
      const Result<DeviceDecoder> known = DeviceDecoderOf(frame.header);
      if (!known.ok()) return known.status().WithContext(frame.name());
      task.decoder = known.value();
      TFC_RETURN_IF_ERROR(CheckLengths(frame, task.decoder).WithContext(frame.name()));
    }
    tasks.push_back(task);
  }
  return tasks;
}

// Tensors whose frames are alike.
struct Alike {
  std::vector<size_t> tensors;
  std::vector<const DeviceDecoder*> decoders;  // Of each rank; null while its frames are empty.
  uint64_t num_elements;
  uint64_t num_bytes;  // Of the workspace, that frames of a rank need, about.

  static Alike Of(size_t tensor, Span<const FrameTask> tasks, Span<const SumTarget> targets) {
    Alike alike = {{tensor}, {}, targets[tensor].n, 0};
    size_t largest = tensor;
    for (size_t i = tensor; i < tasks.size(); i += targets.size()) {
      alike.decoders.push_back(tasks[i].frame.header.k > 0 ? &tasks[i].decoder : nullptr);
      if (tasks[i].frame.bytes.size() > tasks[largest].frame.bytes.size()) largest = i;
    }
    if (!tasks.empty()) alike.num_bytes = FrameGroup(tasks.subspan(largest, 1)).workspace_bytes();
    return alike;
  }

  bool CanJoin(const Alike& other, uint64_t most_bytes) const {
    const auto fits = [](const DeviceDecoder* own, const DeviceDecoder* its) {
      return own == nullptr || its == nullptr || HasSameKinds(*own, *its);
    };
    return tensors.size() + other.tensors.size() <= AlikeDecoder::kMaxTensors &&
           num_elements + other.num_elements <= AlikeDecoder::kMaxElements &&
           num_bytes + other.num_bytes <=
               std::max(most_bytes, Workspace::kMostBytesAnElement * num_elements) &&
           std::equal(decoders.begin(), decoders.end(), other.decoders.begin(), fits);
  }
  void Join(const Alike& other) {
    tensors.insert(tensors.end(), other.tensors.begin(), other.tensors.end());
    for (size_t rank = 0; rank < decoders.size(); ++rank)
      if (decoders[rank] == nullptr) decoders[rank] = other.decoders[rank];
    num_elements += other.num_elements;
    num_bytes += other.num_bytes;
  }
};

std::vector<Alike> DivideByKind(Span<const FrameTask> tasks, Span<const SumTarget> targets,
                                uint64_t most_bytes) {
  std::vector<Alike> divided;
  for (size_t tensor = 0; tensor < targets.size(); ++tensor) {
    Alike own = Alike::Of(tensor, tasks, targets);
    const auto alike = std::find_if(divided.begin(), divided.end(), [&](const Alike& other) {
      return other.CanJoin(own, most_bytes);
    });
    if (alike == divided.end()) {
      divided.push_back(std::move(own));
    } else {
      alike->Join(own);
    }
  }
  return divided;
}

}  // namespace

Result<SumDecoder> SumDecoder::Make(const PacketsView& packets, Span<const int64_t> positions,
                                    Span<const SumTarget> targets, uint64_t most_group_bytes) {
  if (positions.size() != targets.size()) {
    return InvalidArgument("expected one position for each of ", targets.size(), " tensors, got ",
                           positions.size());
  }
  TFC_ASSIGN_OR_RETURN(const std::vector<PacketFrame> frames,
                       ReadPackets(packets, positions, [&](size_t i, const FrameHeader& header) {
                         return CheckTensor(header, targets[i].n, targets[i].dtype);
                       }));
  return Make(packets.bytes, frames, targets, most_group_bytes);
}

Result<SumDecoder> SumDecoder::Make(ByteSpan packets, Span<const PacketFrame> frames,
                                    Span<const SumTarget> targets, uint64_t most_group_bytes) {
  TFC_RETURN_IF_ERROR(CheckHasCode());
  TFC_ASSIGN_OR_RETURN(const std::vector<FrameTask> tasks, TasksOf(packets, frames));
  SumDecoder decoder;
  decoder.targets_.assign(targets.begin(), targets.end());
  decoder.num_packet_bytes_ = packets.size();
  for (Alike& alike : DivideByKind(tasks, targets, most_group_bytes))
    decoder.Add(std::move(alike.tensors), tasks, most_group_bytes);
  return decoder;
}

void SumDecoder::Add(std::vector<size_t> tensors, Span<const FrameTask> tasks,
                     uint64_t most_group_bytes) {
  std::vector<FrameTask> own_tasks;
  std::vector<SumTarget> own_targets;
  for (size_t first = 0; first < tasks.size(); first += targets_.size())
    for (size_t tensor : tensors) own_tasks.push_back(tasks[first + tensor]);
  for (size_t tensor : tensors) own_targets.push_back(targets_[tensor]);
  auto made = AlikeDecoder::Make(std::move(own_tasks), std::move(own_targets), most_group_bytes);
  workspace_bytes_ = std::max(workspace_bytes_, made.workspace_bytes());
  const size_t host_begin = host_bytes_;
  host_bytes_ += made.host_bytes();
  parts_.push_back({std::move(tensors), std::move(made), host_begin});
}

Status SumDecoder::Launch(const unsigned char* packets_dev, float scale,
                          const DeviceBuffer& workspace, cudaStream_t stream, void* host) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  if (packets_dev == nullptr && num_packet_bytes_ > 0)
    return InvalidArgument("the packets are null");
  if (host == nullptr && host_bytes_ > 0) return InvalidArgument("the memory of the host is null");
  for (const SumTarget& target : targets_) {
    if (target.data == nullptr && target.n > 0) return InvalidArgument("a target is null");
  }
  for (const Part& part : parts_) {
    auto* const own_host = static_cast<unsigned char*>(host) + part.host_begin;
    TFC_RETURN_IF_ERROR(part.decoder.Launch(packets_dev, scale, workspace, stream, own_host));
  }
  return OkStatus();
}

Status SumDecoder::Report(const void* host, Span<DecodeStats> stats) const {
  for (const Part& part : parts_) {
    std::vector<DecodeStats> own(part.tensors.size());
    const auto* const own_host = static_cast<const unsigned char*>(host) + part.host_begin;
    TFC_RETURN_IF_ERROR(part.decoder.Report(own_host, Span<DecodeStats>(own)));
    if (stats.empty()) continue;
    for (size_t i = 0; i < own.size(); ++i) stats[part.tensors[i]] = own[i];
  }
  return OkStatus();
}

Status SumDecoder::DecodeSum(const unsigned char* packets_dev, float scale,
                             const DeviceBuffer& workspace, cudaStream_t stream,
                             Span<DecodeStats> stats) const {
  std::vector<std::max_align_t> host(CeilDiv(host_bytes_, sizeof(std::max_align_t)));
  const Status launched = Launch(packets_dev, scale, workspace, stream, host.data());
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));  // Copies of `host` may be under way.
  TFC_RETURN_IF_ERROR(launched);
  return Report(host.data(), stats);
}

}  // namespace device
}  // namespace tfcompress
