#include <algorithm>
#include <vector>

#include "cuda/compensate.h"
#include "cuda/frame_layout.h"
#include "cuda/launch.h"
#include "cuda/piece_encoder.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void AddKernel(const float* own, uint64_t n, float* sums) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads()) sums[i] += own[i];
}

std::vector<DeviceSlot> From(int64_t begin, Span<const DeviceSlot> slots) {
  std::vector<DeviceSlot> moved;
  for (const DeviceSlot& slot : slots)
    moved.push_back({slot.before_dev + begin, slot.after_dev + begin});
  return moved;
}

}  // namespace

Result<PieceEncoder> PieceEncoder::Make(const Compressor& compressor,
                                        const std::vector<int64_t>& cuts, int64_t own) {
  const uint64_t n = cuts.empty() ? 0 : static_cast<uint64_t>(cuts.back());
  TFC_RETURN_IF_ERROR(CheckCuts(cuts, n));
  PieceEncoder encoder;
  encoder.n_ = n;
  TFC_ASSIGN_OR_RETURN(const DeviceSpec spec, DeviceSpecOf(compressor));
  encoder.memory_ = spec.memory;
  Workspace of_own;
  of_own.Take<EncodeState>(1);
  encoder.workspace_bytes_ = of_own.num_bytes();
  std::vector<uint64_t> sizes;
  for (size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
    const int64_t begin = cuts[rank];
    const auto count = static_cast<uint64_t>(cuts[rank + 1] - begin);
    if (static_cast<int64_t>(rank) == own) {
      TFC_RETURN_IF_ERROR(CheckNumElements("piece", count));
      encoder.own_begin_ = begin;
      encoder.own_n_ = static_cast<uint32_t>(count);
    } else if (count > 0) {
      encoder.frames_.push_back({rank, begin, 0});
      sizes.push_back(count);
    }
  }
  if (sizes.empty()) return encoder;
  TFC_ASSIGN_OR_RETURN(encoder.encoder_, FrameEncoder::Make(compressor, DType::kFloat32, sizes));
  encoder.workspace_bytes_ =
      std::max(encoder.workspace_bytes_, encoder.encoder_->workspace_bytes());
  Workspace frames;
  for (size_t i = 0; i < sizes.size(); ++i) {
    encoder.frames_[i].offset = frames.num_bytes();
    frames.Take<unsigned char>(encoder.encoder_->max_frame_bytes(i));
  }
  encoder.max_frames_bytes_ = frames.num_bytes();
  return encoder;
}

Status PieceEncoder::KeepOwn(const float* gradient_dev, Span<const DeviceSlot> slots,
                             const DeviceBuffer& workspace, cudaStream_t stream) const {
  if (own_n_ == 0 || memory_.kind == MemoryKind::kNone) return OkStatus();
  const std::vector<DeviceSlot> own = From(own_begin_, slots);
  Compensation step = {{gradient_dev + own_begin_, DType::kFloat32, own_n_}, memory_, {}};
  std::copy(own.begin(), own.end(), step.slots);
  // Nobody looks for what is not finite.
  auto* state_dev = Workspace(workspace.data_dev).Take<EncodeState>(1);
  TFC_RETURN_IF_ERROR(BeginState(0, 0, state_dev, stream));
  return Settle(step, nullptr, state_dev, stream);
}

Status PieceEncoder::Launch(const float* gradient_dev, Span<const DeviceSlot> slots, uint64_t seed,
                            const DeviceBuffer& workspace, const DeviceBuffer& frames,
                            cudaStream_t stream, EncodeState* states) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes_));
  TFC_RETURN_IF_ERROR(Workspace::Check(frames, max_frames_bytes_));
  TFC_RETURN_IF_ERROR(CheckVectors(memory_, gradient_dev, slots, n_));
  TFC_RETURN_IF_ERROR(KeepOwn(gradient_dev, slots, workspace, stream));
  if (frames_.empty()) return OkStatus();
  std::vector<std::vector<DeviceSlot>> moved;
  std::vector<FrameInput> inputs;
  for (const PieceFrame& frame : frames_) {
    moved.push_back(From(frame.begin, slots));
    const DeviceBuffer buffer = {static_cast<unsigned char*>(frames.data_dev) + frame.offset,
                                 encoder_->max_frame_bytes(inputs.size())};
    inputs.push_back({gradient_dev + frame.begin, moved.back(), seed, buffer});
  }
  return encoder_->Launch(inputs, workspace, stream, states);
}

Status PieceEncoder::Read(const EncodeState* states, PieceCounts* counts) const {
  std::fill(counts->num_bytes.begin(), counts->num_bytes.end(), 0);
  counts->num_sent = 0;
  for (size_t i = 0; i < frames_.size(); ++i) {
    uint64_t num_bytes = 0;
    TFC_RETURN_IF_ERROR(FrameEncoder::ReadLength(states[i], &num_bytes));
    counts->num_bytes[frames_[i].rank] = static_cast<int64_t>(num_bytes);
    counts->num_sent += states[i].k;
  }
  return OkStatus();
}

Status AddOwnPart(const float* own_dev, uint64_t n, float* sums_dev, cudaStream_t stream) {
  return LaunchThreads("add own part", AddKernel, n, stream, own_dev, n, sums_dev);
}

}  // namespace device
}  // namespace tfcompress
