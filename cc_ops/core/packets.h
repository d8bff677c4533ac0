// What an allgather of packets yields, and how the frames of some tensors are found in it.
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

// The packets of `num_ranks` ranks end to end, each `num_frames` frames and then zeros, or none:
// ranks pad to lengths that change seldom, which Horovod has agreed on before.
struct PacketsView {
  ByteSpan bytes;
  int64_t num_ranks;
  int64_t num_frames;
};

// What DecodeSum and DecodeRowsSum measure of one tensor, over all ranks.
struct DecodeStats {
  int64_t num_bytes = 0;
  int64_t nanoseconds = 0;
  bool finite = true;  // Whether it was, on every rank.
};

// How messages name a frame: "rank 1, tensor 2".
std::string FrameName(int64_t rank, int64_t position);

// Fails with DataLoss unless the frame's tensor is of this type.
Status CheckDType(const FrameHeader& header, DType dtype);
// Fails with DataLoss unless the frame is one of a dense tensor of n elements of this type.
Status CheckTensor(const FrameHeader& header, uint64_t n, DType dtype);

// The frames at `positions` of every packet, rank-major: frames[rank * positions.size() + i]. Walks
// over the others by their headers, without decoding them; all of `packets` must be frames.
// `check(i, header)` refuses what is not the expected tensor. Fails with InvalidArgument unless the
// positions ascend strictly in [0, num_frames) and there is a rank, with DataLoss that names rank
// and position for bytes that are not such packets.
Result<std::vector<Frame>> ReadPackets(
    const PacketsView& packets, Span<const int64_t> positions,
    const std::function<Status(size_t i, const FrameHeader& header)>& check);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_PACKETS_H_
