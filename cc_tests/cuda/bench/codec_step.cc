#include "codec_step.h"

#include <numeric>

#include "core/compressor.h"
#include "core/linear_compressor.h"
#include "cuda/cuda_status.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint64_t kSeed = 1, kFrameAlignment = 256;

}  // namespace

Status CodecStep::Make(const std::string& spec) {
  TFC_ASSIGN_OR_RETURN(const auto compressor, Compressor::FromSpec(spec));
  num_slots_ = compressor->memory().num_slots();
  std::vector<uint64_t> sizes;
  for (size_t tensor = 0; tensor < arrays_.num_tensors(); ++tensor)
    sizes.push_back(arrays_.size(tensor));
  TFC_ASSIGN_OR_RETURN(encoder_, FrameEncoder::Make(*compressor, arrays_.dtype(), sizes));
  return AllocateToEncode();
}

Status CodecStep::AllocateToEncode() {
  uint64_t end = 0;
  for (size_t tensor = 0; tensor < arrays_.num_tensors(); ++tensor) {
    frame_begins_.push_back(end);
    const uint64_t most = encoder_->max_frame_bytes(tensor);
    end += (most + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
  }
  TFC_RETURN_IF_ERROR(workspace_.Allocate(encoder_->workspace_bytes()));
  TFC_RETURN_IF_ERROR(frames_.Allocate(end));
  return states_.Allocate(arrays_.num_tensors() * sizeof(EncodeState));
}

DeviceBuffer CodecStep::FrameOf(size_t tensor) const {
  auto* const frames_dev = static_cast<unsigned char*>(frames_.buffer().data_dev);
  return {frames_dev + frame_begins_[tensor], encoder_->max_frame_bytes(tensor)};
}

Status CodecStep::Encode(int rank) const {
  const size_t num_tensors = arrays_.num_tensors();
  std::vector<std::vector<DeviceSlot>> slots(num_tensors);
  std::vector<FrameInput> inputs;
  for (size_t tensor = 0; tensor < num_tensors; ++tensor) {
    for (int i = 0; i < num_slots_; ++i) slots[tensor].push_back(arrays_.slot(i, tensor));
    inputs.push_back({arrays_.gradient_dev(rank, tensor), slots[tensor], kSeed, FrameOf(tensor)});
  }
  return encoder_->Launch(inputs, workspace_.buffer(), stream_, states());
}

Status CodecStep::MakePacket() { return packet_.Allocate(frames_.buffer().num_bytes); }

Status CodecStep::CopyFrames() const {
  auto* const packet = static_cast<unsigned char*>(packet_.data());
  const std::vector<FramePlace> places(arrays_.num_tensors(), {packet, 0});
  return encoder_->CopyFrames(places, PacketMemory::kPinnedHost, workspace_.buffer(), stream_);
}

Result<uint64_t> CodecStep::CopyFrame(size_t tensor, unsigned char* to) const {
  uint64_t num_bytes = 0;
  TFC_RETURN_IF_ERROR(FrameEncoder::ReadLength(states()[tensor], &num_bytes));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(to, FrameOf(tensor).data_dev, num_bytes, cudaMemcpyDeviceToHost, stream_));
  return num_bytes;
}

Status CodecStep::CopyEachFrame() const {
  auto* to = static_cast<unsigned char*>(packet_.data());
  for (size_t tensor = 0; tensor < arrays_.num_tensors(); ++tensor) {
    TFC_ASSIGN_OR_RETURN(const uint64_t num_bytes, CopyFrame(tensor, to));
    to += num_bytes;
  }
  return OkStatus();
}

Status CodecStep::Append(size_t tensor) {
  const size_t begin = packets_.size();
  packets_.resize(begin + encoder_->max_frame_bytes(tensor));
  TFC_ASSIGN_OR_RETURN(const uint64_t num_bytes, CopyFrame(tensor, packets_.data() + begin));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  packets_.resize(begin + num_bytes);
  return OkStatus();
}

Status CodecStep::Gather() {
  for (int rank = 0; rank < arrays_.num_ranks(); ++rank) {
    TFC_RETURN_IF_ERROR(arrays_.ClearSlots(stream_));
    TFC_RETURN_IF_ERROR(Encode(rank));
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    for (size_t tensor = 0; tensor < arrays_.num_tensors(); ++tensor)
      TFC_RETURN_IF_ERROR(Append(tensor));
  }
  TFC_RETURN_IF_ERROR(packets_dev_.Allocate(packets_.size()));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(packets_dev_.buffer().data_dev, packets_.data(),
                                           packets_.size(), cudaMemcpyHostToDevice, stream_));
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  TFC_RETURN_IF_ERROR(ReadHeaders());
  TFC_RETURN_IF_ERROR(sum_workspace_.Allocate(decoder_->workspace_bytes()));
  return sum_host_.Allocate(decoder_->host_bytes());
}

Status CodecStep::ReadHeaders() {
  std::vector<int64_t> positions(arrays_.num_tensors());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<SumTarget> targets;
  for (size_t tensor = 0; tensor < arrays_.num_tensors(); ++tensor)
    targets.push_back(arrays_.target(tensor));
  const auto num_tensors = static_cast<int64_t>(arrays_.num_tensors());
  const PacketsView view{packets_, arrays_.num_ranks(), num_tensors};
  TFC_ASSIGN_OR_RETURN(decoder_, SumDecoder::Make(view, positions, targets));
  return OkStatus();
}

Status CodecStep::LaunchSum() const {
  return decoder_->Launch(static_cast<const unsigned char*>(packets_dev_.buffer().data_dev),
                          1.0f / static_cast<float>(arrays_.num_ranks()), sum_workspace_.buffer(),
                          stream_, sum_host_.data());
}

Status CodecStep::Sum() {
  TFC_RETURN_IF_ERROR(ReadHeaders());
  return LaunchSum();
}

Status CodecStep::CheckSum() const {
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  return decoder_->Report(sum_host_.data(), {});
}

Status LinearStep::Make(const std::string& spec) {
  TFC_ASSIGN_OR_RETURN(const auto compressor, LinearCompressor::FromSpec(spec));
  TFC_ASSIGN_OR_RETURN(coder_, LinearCoder::Make(*compressor, arrays_.size(0)));
  TFC_RETURN_IF_ERROR(encode_workspace_.Allocate(coder_->encode_workspace_bytes()));
  TFC_RETURN_IF_ERROR(recover_workspace_.Allocate(coder_->recover_workspace_bytes()));
  TFC_RETURN_IF_ERROR(payload_.Allocate(coder_->payload_size() * sizeof(float)));
  TFC_RETURN_IF_ERROR(indices_.Allocate(coder_->num_candidates() * sizeof(uint32_t)));
  return values_.Allocate(coder_->num_candidates() * sizeof(float));
}

Status LinearStep::Encode() const {
  const auto* const gradient_dev = static_cast<const float*>(arrays_.gradient_dev(0, 0));
  const std::vector<DevicePart> parts = {{gradient_dev, arrays_.size(0)}};
  return coder_->Encode(parts, kSeed, encode_workspace_.buffer(),
                        static_cast<float*>(payload_.buffer().data_dev), stream_);
}

Status LinearStep::Recover() const {
  return coder_->Recover(static_cast<const float*>(payload_.buffer().data_dev), kSeed,
                         recover_workspace_.buffer(),
                         static_cast<uint32_t*>(indices_.buffer().data_dev),
                         static_cast<float*>(values_.buffer().data_dev), stream_);
}

}  // namespace device
}  // namespace tfcompress
