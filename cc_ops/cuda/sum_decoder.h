// DecodeSum on the device: returns the same floats as core/pipeline.h.
//
// The packets are given twice. On the host the core's code reads and checks the headers. On the
// device the sections are checked and decoded. Where the collective put the packets there, the host
// has what HeaderFinder shows: it may read no more than headers and four bytes behind each, but to
// name the frame that is broken.
//
// Tensors whose frames are alike are decoded together (alike_decoder.h). Those of a step mostly
// are; with a codec for each variable there are as many kinds as codecs.
#ifndef TFCOMPRESS_CUDA_SUM_DECODER_H_
#define TFCOMPRESS_CUDA_SUM_DECODER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/packets.h"
#include "core/pipeline.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/alike_decoder.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Decodes and sums the frames of some tensors, for packets whose headers it has read. For one use:
// other packets need another SumDecoder.
class SumDecoder {
 public:
  static constexpr uint64_t kMostGroupBytes = uint64_t{256} << 20;

  // Reads the headers of the frames at `positions`, for targets on the device. Borrows the packets'
  // bytes. Fails as DecodeSum does for invalid headers and lengths, and with InvalidArgument for a
  // codec without a device variant, which the message names, and where the build has no code for
  // the device. For most_group_bytes see AlikeDecoder.
  static Result<SumDecoder> Make(const PacketsView& packets, Span<const int64_t> positions,
                                 Span<const SumTarget> targets,
                                 uint64_t most_group_bytes = kMostGroupBytes);
  // The same for frames that were read from `packets` and checked: of each rank in order, one for
  // each target.
  static Result<SumDecoder> Make(ByteSpan packets, Span<const PacketFrame> frames,
                                 Span<const SumTarget> targets,
                                 uint64_t most_group_bytes = kMostGroupBytes);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Memory of the host that the stream copies from and to, aligned as by malloc.
  size_t host_bytes() const { return host_bytes_; }

  // Writes `scale` times the sum over ranks to the targets, in rank order, so that every rank gets
  // the same bits. packets_dev has the bytes of the packets. Puts everything on `stream`, at its
  // end a copy to `host`, host_bytes() bytes, which Report reads when the stream has come there;
  // waits for nothing if they are pinned.
  Status Launch(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                cudaStream_t stream, void* host) const;
  // Fails with DataLoss, naming rank and position, if any frame is broken; the targets' content is
  // then unspecified. `stats` is empty or has one element for each target; their nanoseconds are 0.
  Status Report(const void* host, Span<DecodeStats> stats) const;
  // Launches, waits for the stream once, and reports.
  Status DecodeSum(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                   cudaStream_t stream, Span<DecodeStats> stats) const;

 private:
  // Tensors that are decoded together, and where their part of the host's memory begins. One part
  // uses the workspace after the other.
  struct Part {
    std::vector<size_t> tensors;
    AlikeDecoder decoder;
    size_t host_begin;
  };

  SumDecoder() = default;
  void Add(std::vector<size_t> tensors, Span<const FrameTask> tasks, uint64_t most_group_bytes);

  std::vector<SumTarget> targets_;
  size_t num_packet_bytes_ = 0;
  std::vector<Part> parts_;
  size_t workspace_bytes_ = 0;
  size_t host_bytes_ = 0;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SUM_DECODER_H_
