// Packets as gathered from all ranks, and reading the frames of some tensors from them.
#ifndef TFCOMPRESS_CORE_PACKETS_H_
#define TFCOMPRESS_CORE_PACKETS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/frame.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// The packets of `num_ranks` ranks end to end, each of `num_frames` frames and optional zeros:
// ranks pad packets to lengths that change seldom, since Horovod caches their negotiation.
struct PacketsView {
  ByteSpan bytes;
  int64_t num_ranks;
  int64_t num_frames;
  int64_t absent_rank = -1;  // One that sent no packet, if any.
};

// A frame, and where it came from.
struct PacketFrame : Frame {
  int64_t rank = 0;
  int64_t position = 0;  // In the packet.

  // In messages: "rank 1, tensor 2".
  std::string name() const {
    return "rank " + std::to_string(rank) + ", tensor " + std::to_string(position);
  }
};

// Measurements of DecodeSum and DecodeRowsSum for one tensor, over all ranks.
struct DecodeStats {
  int64_t num_bytes = 0;
  int64_t nanoseconds = 0;
  bool finite = true;  // Whether the tensor was finite on every rank.
};

// Fails with DataLoss unless the frame's tensor is of this type.
Status CheckDType(const FrameHeader& header, DType dtype);
// Fails with DataLoss unless the frame is of a dense tensor of n elements of this type.
Status CheckTensor(const FrameHeader& header, uint64_t n, DType dtype);

// What a rank sends instead of its sums where it could not read what others sent: every rank then
// fails with that message, and none waits for one that has stopped. FORMAT.md, "Errors".
void AppendError(const Status& status, Bytes* packet);
// Returns the frames at `positions` of every packet, rank-major: frames[rank * positions.size() +
// i], without the rank that is absent. Skips the others by their headers, without decoding them;
// all of `packets` must be frames. `check(i, header)` fails for an unexpected tensor. Fails with
// InvalidArgument unless the positions ascend strictly in [0, num_frames) and there is a rank, and
// with DataLoss, naming rank and position, for bytes that are not such packets, errors among them.
Result<std::vector<PacketFrame>> ReadPackets(
    const PacketsView& packets, Span<const int64_t> positions,
    const std::function<Status(size_t i, const FrameHeader& header)>& check);

// Returns the frames of sums of pieces: `packets` has, for each rank in order, those of its pieces
// of all tensors, in their order. Piece r of a tensor is elements [cuts[r], cuts[r + 1]); one of no
// elements has no frame. All `cuts`, one for each tensor, are equally many. Fails with DataLoss,
// naming rank and tensor, for bytes that are not such packets, errors among them.
Result<std::vector<PacketFrame>> ReadPieces(ByteSpan packets, Span<const Span<const int64_t>> cuts);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_PACKETS_H_
