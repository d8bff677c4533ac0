#include "core/packets.h"

#include <algorithm>

namespace tfcompress {
namespace {

constexpr uint32_t kErrorMagic = 0x45434654;  // "TFCE"
constexpr uint32_t kMaxErrorBytes = 4096;

Status CheckArguments(const PacketsView& packets, Span<const int64_t> positions) {
  const int64_t least = packets.absent_rank < 0 ? 1 : 2;
  if (packets.num_ranks < least) {
    return InvalidArgument("num_ranks must be at least ", least, ", got ", packets.num_ranks);
  }
  int64_t previous = -1;
  for (int64_t position : positions) {
    if (position <= previous || position >= packets.num_frames) {
      return InvalidArgument("positions must ascend in [0, ", packets.num_frames, "), got ",
                             position, " after ", previous);
    }
    previous = position;
  }
  return OkStatus();
}

// Fails with DataLoss and the message if the packet of this rank begins with an error.
Status CheckNoError(int64_t rank, const ByteReader& packet) {
  ByteReader reader = packet;
  uint32_t magic = 0, size = 0;
  if (!reader.Read("magic", &magic).ok() || magic != kErrorMagic) return OkStatus();
  ByteSpan text;
  TFC_RETURN_IF_ERROR(reader.Read("length of an error", &size));
  TFC_RETURN_IF_ERROR(reader.ReadSpan("error", std::min(size, kMaxErrorBytes), &text));
  std::string message;
  for (unsigned char c : text) message.push_back(c >= ' ' && c <= '~' ? static_cast<char>(c) : '?');
  return DataLoss("rank ", rank, " could not sum its shard: ", message);
}

// Reads the next frame, and checks its tensor by `check(header)`. The status of a failure names
// rank and position.
Status ReadPacketFrame(int64_t rank, int64_t position,
                       const std::function<Status(const FrameHeader& header)>& check,
                       ByteReader* reader, PacketFrame* frame) {
  frame->rank = rank;
  frame->position = position;
  Status status = ReadFrame(reader, frame);
  if (status.ok()) status = check(frame->header);
  return status.ok() ? status : status.WithContext(frame->name());
}

}  // namespace

Status CheckDType(const FrameHeader& header, DType dtype) {
  if (header.dtype == dtype) return OkStatus();
  return DataLoss("frame of ", DTypeName(header.dtype), ", expected ", DTypeName(dtype));
}

Status CheckTensor(const FrameHeader& header, uint64_t n, DType dtype) {
  const bool is_rows = header.support == SupportKind::kRows;
  if (header.n != n || is_rows) {
    return DataLoss("frame of ", header.n, is_rows ? " rows" : " elements", ", expected ", n,
                    " elements");
  }
  return CheckDType(header, dtype);
}

void AppendError(const Status& status, Bytes* packet) {
  const std::string text = status.message().substr(0, kMaxErrorBytes);
  ByteWriter writer(packet);
  writer.Write(kErrorMagic);
  writer.Write(static_cast<uint32_t>(text.size()));
  std::copy(text.begin(), text.end(), writer.Extend(text.size()));
}

Result<std::vector<PacketFrame>> ReadPackets(
    const PacketsView& packets, Span<const int64_t> positions,
    const std::function<Status(size_t i, const FrameHeader& header)>& check) {
  TFC_RETURN_IF_ERROR(CheckArguments(packets, positions));
  ByteReader reader(packets.bytes);
  // Grows as frames are read: a wrong number of ranks must be an error, not a huge allocation.
  std::vector<PacketFrame> frames;
  for (int64_t rank = 0; packets.num_frames > 0 && rank < packets.num_ranks; ++rank) {
    if (rank == packets.absent_rank) continue;
    TFC_RETURN_IF_ERROR(CheckNoError(rank, reader));
    size_t i = 0;
    for (int64_t position = 0; position < packets.num_frames; ++position) {
      const bool is_wanted = i < positions.size() && positions[i] == position;
      PacketFrame frame;
      TFC_RETURN_IF_ERROR(ReadPacketFrame(
          rank, position,
          [&](const FrameHeader& header) { return is_wanted ? check(i, header) : OkStatus(); },
          &reader, &frame));
      if (!is_wanted) continue;
      frames.push_back(frame);
      ++i;
    }
    reader.SkipZeros();
  }
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("packets"));
  return frames;
}

Result<std::vector<PacketFrame>> ReadPieces(ByteSpan packets,
                                            Span<const Span<const int64_t>> cuts) {
  ByteReader reader(packets);
  std::vector<PacketFrame> frames;
  const size_t num_ranks = cuts.empty() ? 0 : cuts[0].size() - 1;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    TFC_RETURN_IF_ERROR(CheckNoError(static_cast<int64_t>(rank), reader));
    for (size_t i = 0; i < cuts.size(); ++i) {
      const auto n = static_cast<uint64_t>(cuts[i][rank + 1] - cuts[i][rank]);
      if (n == 0) continue;
      PacketFrame frame;
      TFC_RETURN_IF_ERROR(ReadPacketFrame(
          static_cast<int64_t>(rank), static_cast<int64_t>(i),
          [n](const FrameHeader& header) { return CheckTensor(header, n, DType::kFloat32); },
          &reader, &frame));
      frames.push_back(frame);
    }
  }
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("packets"));
  return frames;
}

}  // namespace tfcompress
