#include <utility>

#include "cuda/piece_decoder.h"

namespace tfcompress {
namespace device {

Result<PieceDecoder> PieceDecoder::Make(ByteSpan packets, Span<const CutTensor> tensors) {
  std::vector<Span<const int64_t>> cuts;
  for (const CutTensor& tensor : tensors) cuts.push_back(tensor.cuts);
  TFC_ASSIGN_OR_RETURN(std::vector<PacketFrame> frames, ReadPieces(packets, cuts));
  std::vector<SumTarget> pieces;
  for (const PacketFrame& frame : frames) {
    const CutTensor& tensor = tensors[frame.position];
    pieces.push_back({tensor.sums + tensor.cuts[frame.rank], DType::kFloat32, frame.header.n});
  }
  TFC_ASSIGN_OR_RETURN(SumDecoder of_pieces, SumDecoder::Make(packets, frames, pieces));
  PieceDecoder decoder(std::move(of_pieces));
  decoder.frames_ = std::move(frames);
  decoder.tensors_.assign(tensors.begin(), tensors.end());
  return decoder;
}

Status PieceDecoder::Launch(const unsigned char* packets_dev, float scale,
                            const DeviceBuffer& workspace, cudaStream_t stream, void* host) const {
  TFC_RETURN_IF_ERROR(decoder_.Launch(packets_dev, scale, workspace, stream, host));
  for (const PacketFrame& frame : frames_) {
    if (!frame.header.nonfinite) continue;
    const CutTensor& tensor = tensors_[frame.position];
    const auto n = static_cast<uint64_t>(tensor.num_elements());
    TFC_RETURN_IF_ERROR(FillNaN({tensor.sums, DType::kFloat32, n}, stream));
  }
  return OkStatus();
}

Status PieceDecoder::Report(const void* host, Span<DecodeStats> stats) const {
  std::vector<DecodeStats> of_frames(frames_.size());
  TFC_RETURN_IF_ERROR(decoder_.Report(host, Span<DecodeStats>(of_frames)));
  for (size_t i = 0; i < frames_.size(); ++i) {
    DecodeStats& of_tensor = stats[frames_[i].position];
    of_tensor.num_bytes += of_frames[i].num_bytes;
    of_tensor.finite &= of_frames[i].finite;
  }
  return OkStatus();
}

}  // namespace device
}  // namespace tfcompress
