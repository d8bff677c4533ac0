#include "tf/cuda/joint_encoding.h"

#include <utility>

#include "core/wire_header.h"
#include "cuda/device_variants.h"
#include "cuda/resident_blocks.h"
#include "cuda/workspace.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

// Bytes of workspace and frames of calls that are encoded together; a lone one may take as much as
// FrameEncoder allows. The model needs the memory, and what takes as much keeps a GPU busy without
// others.
constexpr uint64_t kMostBytes = uint64_t{512} << 20;

// Of the elements that each reads.
std::vector<int64_t> ShareTimeOf(const EncodeCalls& calls, int64_t nanoseconds) {
  std::vector<uint64_t> sizes;
  for (const EncodeCall* call : calls) sizes.push_back(call->job.num_elements);
  return ShareTime(nanoseconds, sizes);
}

}  // namespace

absl::Status AllocatePacket(tensorflow::OpKernelContext* ctx, uint64_t num_bytes,
                            tensorflow::Tensor* packet) {
  if (!PacketsAreOnDevice()) return AllocatePinned(ctx, num_bytes, packet);
  return ctx->allocate_temp(tensorflow::DT_UINT8, {static_cast<int64_t>(num_bytes)}, packet);
}

Result<JointEncoding> JointEncoding::Make(const EncodeCalls& calls) {
  const EncodeJob& first = calls.front()->job;
  JointEncoding encoding(calls);
  std::vector<uint64_t> sizes;
  for (const EncodeCall* call : calls) {
    encoding.first_frames_.push_back(sizes.size());
    for (const FrameJob& frame : call->job.frames) sizes.push_back(frame.n);
  }
  encoding.first_frames_.push_back(sizes.size());
  encoding.places_.resize(sizes.size());
  if (sizes.empty()) {
    TFC_RETURN_IF_ERROR(device::CheckHasCode());
    TFC_RETURN_IF_ERROR(device::DeviceSpecOf(*first.compressor).status());
    return encoding;
  }
  TFC_ASSIGN_OR_RETURN(
      auto encoder, device::FrameEncoder::Make(*first.compressor, first.dtype, sizes, first.rule));
  encoding.encoder_.emplace(std::move(encoder));
  return encoding;
}

// Allocates the workspace, and a buffer for each frame.
absl::Status JointEncoding::AllocateFrames(bool is_alone) {
  const auto take_all = [this](device::Workspace* workspace) {
    buffers_.clear();
    for (size_t i = 0; i < places_.size(); ++i) {
      const uint64_t num_bytes = encoder_->max_frame_bytes(i);
      buffers_.push_back({workspace->Take<unsigned char>(num_bytes), num_bytes});
    }
  };
  device::Workspace measure;
  take_all(&measure);
  if (!is_alone && encoder_->workspace_bytes() + measure.num_bytes() > kMostBytes)
    return absl::ResourceExhaustedError("too much to be encoded together");
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx_, encoder_->workspace_bytes(), &workspace_, is_alone));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx_, measure.num_bytes(), &frames_, is_alone));
  device::Workspace carve(frames_.data_dev);
  take_all(&carve);
  return absl::OkStatus();
}

absl::Status JointEncoding::AllocatePacketOf(size_t call, uint64_t num_bytes) {
  TF_RETURN_IF_ERROR(AllocatePacket(calls_[call]->ctx, num_bytes, &packets_[call]));
  const size_t first = first_frames_[call];
  for (size_t i = first; i < first_frames_[call + 1]; ++i) {
    places_[i] = {static_cast<unsigned char*>(packets_[call].data()), static_cast<uint32_t>(first)};
  }
  return absl::OkStatus();
}

// Allocates packets that have room for frames of any length, if that is no more pinned memory than
// copies of the gradients would take, and if there is as much. On the device there is none to
// spare.
void JointEncoding::AllocateLongestPackets() {
  uint64_t most = 0, num_bytes = 0;
  std::vector<uint64_t> of_calls(calls_.size());
  for (size_t call = 0; call < calls_.size(); ++call) {
    const EncodeJob& job = calls_[call]->job;
    for (size_t i = first_frames_[call]; i < first_frames_[call + 1]; ++i)
      of_calls[call] += encoder_->max_frame_bytes(i);
    most += job.num_elements * DTypeBytes(job.dtype) + job.frames.size() * kFrameHeaderBytes;
    num_bytes += of_calls[call];
  }
  copies_ahead_ = !PacketsAreOnDevice() && num_bytes <= most;
  for (size_t call = 0; call < calls_.size() && copies_ahead_; ++call)
    copies_ahead_ = AllocatePacketOf(call, of_calls[call]).ok();
  if (!copies_ahead_) places_.assign(places_.size(), {});
}

absl::Status JointEncoding::Allocate() {
  if (!encoder_) return absl::OkStatus();
  TF_RETURN_IF_ERROR(AllocateFrames(/*is_alone=*/calls_.size() == 1));
  AllocateLongestPackets();
  return AllocatePinned(ctx_, places_.size() * sizeof(device::EncodeState), &states_owner_);
}

absl::Status JointEncoding::Launch() {
  std::vector<device::FrameInput> inputs;
  for (const EncodeCall* call : calls_) {
    const EncodeJob& job = call->job;
    if (job.prepare) TF_RETURN_IF_ERROR(ToTensorFlow(job.prepare(StreamOf(ctx_))));
    for (const FrameJob& frame : job.frames)
      inputs.push_back({frame.gradient_dev, frame.slots, job.seed, buffers_[inputs.size()]});
  }
  if (!encoder_) return absl::OkStatus();
  return ToTensorFlow(encoder_->Launch(inputs, workspace_, StreamOf(ctx_), states()));
}

// Copies frames to the packets: on the device behind what the kernel's stream has now, to the host
// behind the encoding alone, null if it is done, and waits there.
absl::Status JointEncoding::CopyFrames(const device::StreamTimer* encoding) {
  if (!encoder_) return absl::OkStatus();
  if (PacketsAreOnDevice()) {
    return ToTensorFlow(
        encoder_->CopyFrames(places_, device::PacketMemory::kDevice, workspace_, StreamOf(ctx_)));
  }
  cudaStream_t stream = nullptr;
  TF_RETURN_IF_ERROR(ToTensorFlow(CopyStream(&stream)));
  if (encoding != nullptr) TF_RETURN_IF_ERROR(ToTensorFlow(encoding->MakeWait(stream)));
  const Status status =
      encoder_->CopyFrames(places_, device::PacketMemory::kPinnedHost, workspace_, stream);
  const Status waited = WaitFor(stream);  // For what came before an error, too.
  return ToTensorFlow(status.ok() ? waited : status);
}

// Counts the frames of a call, and sets its output.
absl::Status JointEncoding::OutputPacket(size_t call, EncodedCounts* counts) {
  uint64_t total = 0;
  for (size_t i = first_frames_[call]; i < first_frames_[call + 1]; ++i) {
    uint64_t num_bytes;
    TF_RETURN_IF_ERROR(ToTensorFlow(device::FrameEncoder::ReadLength(states()[i], &num_bytes)));
    counts->num_bytes.push_back(static_cast<int64_t>(num_bytes));
    counts->num_sent += states()[i].k;
    total += num_bytes;
  }
  if (!copies_ahead_) TF_RETURN_IF_ERROR(AllocatePacketOf(call, total));
  calls_[call]->ctx->set_output(0, packets_[call].Slice(0, static_cast<int64_t>(total)));
  return absl::OkStatus();
}

absl::Status JointEncoding::Run() {
  int64_t nanoseconds = 0;
  const auto launch = [this] { return Launch(); };
  const auto copy = [this](const device::StreamTimer& encoding) {
    return copies_ahead_ ? CopyFrames(&encoding) : absl::OkStatus();
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx_, launch, &nanoseconds, copy));
  std::vector<EncodedCounts> counts(calls_.size());
  for (size_t i = 0; i < calls_.size(); ++i) calls_[i]->status = OutputPacket(i, &counts[i]);
  if (!copies_ahead_) TF_RETURN_IF_ERROR(CopyFrames(/*encoding=*/nullptr));
  const std::vector<int64_t> shares = ShareTimeOf(calls_, nanoseconds);
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i]->status.ok()) calls_[i]->Finish(counts[i], shares[i]);
  }
  return absl::OkStatus();
}

}  // namespace tfcompress
