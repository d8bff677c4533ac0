// DecodePieces on the device: returns the same floats as core/pipeline.h.
#ifndef TFCOMPRESS_CUDA_PIECE_DECODER_H_
#define TFCOMPRESS_CUDA_PIECE_DECODER_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "core/packets.h"
#include "core/pipeline.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/sum_decoder.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Decodes what the ranks summed, for packets whose headers it has read. For one use, as SumDecoder,
// for which all pieces are tensors of one rank.
class PieceDecoder {
 public:
  // The sums of `tensors` are on the device. Borrows the packets' bytes and the cuts. Fails as
  // DecodePieces does for invalid headers and lengths, and with InvalidArgument for a codec without
  // a device variant, which the message names.
  static Result<PieceDecoder> Make(ByteSpan packets, Span<const CutTensor> tensors);

  size_t workspace_bytes() const { return decoder_.workspace_bytes(); }
  size_t host_bytes() const { return decoder_.host_bytes(); }

  // As SumDecoder::Launch, and fills tensors that were not finite in some piece with NaN.
  Status Launch(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                cudaStream_t stream, void* host) const;
  // As SumDecoder::Report, with one element of `stats` for each tensor.
  Status Report(const void* host, Span<DecodeStats> stats) const;

 private:
  explicit PieceDecoder(SumDecoder decoder) : decoder_(std::move(decoder)) {}

  SumDecoder decoder_;
  std::vector<PacketFrame> frames_;
  std::vector<CutTensor> tensors_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PIECE_DECODER_H_
