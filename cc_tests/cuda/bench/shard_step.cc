#include "shard_step.h"

#include <algorithm>
#include <utility>

#include "core/compressor.h"
#include "cuda/cuda_status.h"
#include "cuda/device_variants.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint64_t kSeed = 1;

}  // namespace

Status ShardStep::Make(const std::string& spec) {
  TFC_ASSIGN_OR_RETURN(const auto compressor, Compressor::FromSpec(spec));
  num_slots_ = compressor->memory().num_slots();
  const auto num_ranks = static_cast<uint64_t>(arrays_.num_ranks());
  for (uint64_t rank = 0; rank <= num_ranks; ++rank)
    cuts_.push_back(static_cast<int64_t>(arrays_.size(0) * rank / num_ranks));
  TFC_ASSIGN_OR_RETURN(const DeviceSpec device_spec, DeviceSpecOf(*compressor));
  memory_ = device_spec.memory;
  size_t workspace_bytes = 0, frame_bytes = 0;
  for (uint64_t rank = 0; rank < num_ranks; ++rank) {
    TFC_ASSIGN_OR_RETURN(DividedTensor divided, Divide(cuts_, static_cast<int64_t>(rank)));
    std::vector<uint64_t> sizes;
    for (const Piece& piece : divided.of_others) sizes.push_back(piece.n);
    std::optional<FrameEncoder> pieces;
    if (!sizes.empty()) {
      TFC_ASSIGN_OR_RETURN(pieces, FrameEncoder::Make(*compressor, DType::kFloat32, sizes));
      workspace_bytes = std::max(workspace_bytes, pieces->workspace_bytes());
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      piece_bytes_ = std::max(piece_bytes_, pieces->max_frame_bytes(i));
    TFC_ASSIGN_OR_RETURN(
        FrameEncoder sum,
        FrameEncoder::Make(*compressor, DType::kFloat32, static_cast<uint64_t>(PieceSize(rank)),
                           MemoryRule::kPlainSum));
    workspace_bytes = std::max(workspace_bytes, sum.workspace_bytes());
    frame_bytes = std::max<size_t>(frame_bytes, sum.max_frame_bytes());
    divided_.push_back(std::move(divided));
    pieces_.push_back(std::move(pieces));
    sums_.push_back(std::move(sum));
  }
  TFC_RETURN_IF_ERROR(workspace_.Allocate(workspace_bytes));
  TFC_RETURN_IF_ERROR(frames_.Allocate((num_ranks - 1) * piece_bytes_));
  TFC_RETURN_IF_ERROR(sum_frame_.Allocate(frame_bytes));
  return states_.Allocate(num_ranks * sizeof(EncodeState));  // The last one is the sum's.
}

std::vector<DeviceSlot> ShardStep::WholeSlots() const {
  std::vector<DeviceSlot> slots;
  for (int i = 0; i < num_slots_; ++i) slots.push_back(arrays_.slot_in_place(i, 0));
  return slots;
}

Status ShardStep::EncodePieces(size_t rank) const {
  const auto* const gradient =
      static_cast<const float*>(arrays_.gradient_dev(static_cast<int>(rank), 0));
  const std::vector<DeviceSlot> slots = WholeSlots();
  TFC_RETURN_IF_ERROR(KeepOwn(memory_, gradient, slots, divided_[rank].own, stream_));
  if (!pieces_[rank]) return OkStatus();
  std::vector<std::vector<DeviceSlot>> of_pieces;
  std::vector<FrameInput> inputs;
  for (const Piece& piece : divided_[rank].of_others) {
    of_pieces.push_back(SlotsOf(piece, slots));
    auto* const frame =
        static_cast<unsigned char*>(frames_.buffer().data_dev) + inputs.size() * piece_bytes_;
    inputs.push_back({gradient + piece.begin, of_pieces.back(), kSeed, {frame, piece_bytes_}});
  }
  return pieces_[rank]->Launch(inputs, workspace_.buffer(), stream_, states());
}

Status ShardStep::EncodeSum(size_t rank) const {
  const int64_t begin = cuts_[rank];
  const auto* const others = static_cast<const float*>(arrays_.gradient_dev(0, 0)) + begin;
  const std::vector<DeviceSlot> slots = SlotsOf({rank, begin, 0}, WholeSlots());
  const FrameInput input = {others, slots, kSeed, sum_frame_.buffer()};
  return sums_[rank].Launch({&input, 1}, workspace_.buffer(), stream_,
                            states() + arrays_.num_ranks() - 1);
}

Status ShardStep::Append(const void* frame_dev, uint64_t num_bytes, Bytes* packets) const {
  const size_t begin = packets->size();
  packets->resize(begin + num_bytes);
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(packets->data() + begin, frame_dev, num_bytes,
                                           cudaMemcpyDeviceToHost, stream_));
  return FromCuda(cudaStreamSynchronize(stream_), "frame");
}

Status ShardStep::Upload(const Bytes& packets, OwnedMemory* memory) const {
  TFC_RETURN_IF_ERROR(memory->Allocate(packets.size()));
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(memory->buffer().data_dev, packets.data(),
                                           packets.size(), cudaMemcpyHostToDevice, stream_));
  return FromCuda(cudaStreamSynchronize(stream_), "packets");
}

Status ShardStep::Exchange() {
  for (size_t rank = 0; rank < pieces_.size(); ++rank) {
    TFC_RETURN_IF_ERROR(arrays_.ClearSlots(stream_));
    TFC_RETURN_IF_ERROR(EncodePieces(rank));
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    const std::vector<Piece>& others = divided_[rank].of_others;
    for (size_t i = 0; i < others.size(); ++i) {
      uint64_t num_bytes = 0;
      TFC_RETURN_IF_ERROR(FrameEncoder::ReadLength(states()[i], &num_bytes));
      if (rank == 0) sent_bytes_ += num_bytes;
      if (others[i].rank == 0)  // Its frame is the first one.
        TFC_RETURN_IF_ERROR(Append(frames_.buffer().data_dev, num_bytes, &received_));
    }
    if (PieceSize(rank) == 0) continue;
    TFC_RETURN_IF_ERROR(EncodeSum(rank));
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    uint64_t of_sum = 0;
    TFC_RETURN_IF_ERROR(FrameEncoder::ReadLength(states()[arrays_.num_ranks() - 1], &of_sum));
    TFC_RETURN_IF_ERROR(Append(sum_frame_.buffer().data_dev, of_sum, &gathered_));
    if (rank == 0) sent_bytes_ += of_sum;
  }
  TFC_RETURN_IF_ERROR(Upload(received_, &received_dev_));
  TFC_RETURN_IF_ERROR(Upload(gathered_, &gathered_dev_));
  TFC_RETURN_IF_ERROR(ReadHeaders());
  TFC_RETURN_IF_ERROR(
      sum_workspace_.Allocate(std::max(own_->workspace_bytes(), all_->workspace_bytes())));
  TFC_RETURN_IF_ERROR(received_host_.Allocate(own_->host_bytes()));
  return gathered_host_.Allocate(all_->host_bytes());
}

Status ShardStep::Encode() const {
  TFC_RETURN_IF_ERROR(EncodePieces(0));
  return EncodeSum(0);
}

Status ShardStep::ReadHeaders() {
  const SumTarget whole = arrays_.target(0);
  const SumTarget piece = {whole.data, whole.dtype, static_cast<uint64_t>(PieceSize(0))};
  const int64_t position = 0;
  const PacketsView view = {received_, arrays_.num_ranks(), 1, 0};
  TFC_ASSIGN_OR_RETURN(own_, SumDecoder::Make(view, {&position, 1}, {&piece, 1}));
  const CutTensor tensor = {static_cast<float*>(whole.data), cuts_};
  TFC_ASSIGN_OR_RETURN(all_, PieceDecoder::Make(gathered_, {&tensor, 1}));
  return OkStatus();
}

Status ShardStep::LaunchSum() const {
  TFC_RETURN_IF_ERROR(
      own_->Launch(static_cast<const unsigned char*>(received_dev_.buffer().data_dev), 1.0f,
                   sum_workspace_.buffer(), stream_, received_host_.data()));
  return all_->Launch(static_cast<const unsigned char*>(gathered_dev_.buffer().data_dev),
                      1.0f / static_cast<float>(arrays_.num_ranks()), sum_workspace_.buffer(),
                      stream_, gathered_host_.data());
}

Status ShardStep::Sum() {
  TFC_RETURN_IF_ERROR(ReadHeaders());
  return LaunchSum();
}

Status ShardStep::CheckSum() const {
  TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  TFC_RETURN_IF_ERROR(own_->Report(received_host_.data(), {}));
  DecodeStats stats;
  return all_->Report(gathered_host_.data(), {&stats, 1});
}

}  // namespace device
}  // namespace tfcompress
