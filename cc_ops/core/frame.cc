#include "core/frame.h"

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "core/wire_header.h"

namespace tfcompress {
namespace {

uint32_t ChecksumOf(ByteSpan frame) {
  const uint32_t before = Crc32c(frame.subspan(0, kChecksumOffset));
  return Crc32c(frame.subspan(kFrameHeaderBytes, frame.size() - kFrameHeaderBytes), before);
}

// Reads a header; checks that this build reads such frames, and nothing else of it.
Status ReadWireHeader(ByteReader* reader, WireHeader* h) {
  ByteSpan bytes;
  TFC_RETURN_IF_ERROR(reader->ReadSpan("frame header", kFrameHeaderBytes, &bytes));
  std::memcpy(h, bytes.data(), kFrameHeaderBytes);
  if (h->magic != kFrameMagic) return DataLoss("not a tfcompress frame: magic is ", h->magic);
  if (h->version != kFrameVersion) {
    return DataLoss("frame version ", int{h->version}, ", this build reads version ",
                    int{kFrameVersion}, ": do all ranks run the same tfcompress?");
  }
  return OkStatus();
}

Status CheckWireHeader(const WireHeader& h) {
  if (h.flags > kFlagNonfinite) return DataLoss("unknown flags ", int{h.flags});
  if (!IsDType(h.dtype)) return DataLoss("unknown dtype code ", int{h.dtype});
  if (h.support > static_cast<uint8_t>(SupportKind::kRows))
    return DataLoss("unknown support kind ", int{h.support});
  if (h.reserved != 0) return DataLoss("reserved field is ", h.reserved, ", expected 0");
  if (h.n > kMaxElements) return DataLoss("n = ", h.n, " is above the limit ", kMaxElements);
  if (h.k > h.n) return DataLoss("k = ", h.k, " is above n = ", h.n);
  const uint64_t num_bytes = kFrameHeaderBytes + h.num_index_bytes + h.num_value_bytes;
  if (h.num_bytes != num_bytes) {
    return DataLoss("frame length ", h.num_bytes, " is not that of header and sections, ",
                    num_bytes);
  }
  const bool nonfinite = (h.flags & kFlagNonfinite) != 0;
  if ((nonfinite && h.k != 0) || (h.k == 0 && num_bytes != kFrameHeaderBytes)) {
    return DataLoss("a frame without values has sections, or k = ", h.k);
  }
  const auto support = static_cast<SupportKind>(h.support);
  const bool has_index = support == SupportKind::kIndexSection || support == SupportKind::kRows;
  if (!has_index && (h.num_index_bytes != 0 || h.index_id != 0)) {
    return DataLoss("an index section where the support kind allows none");
  }
  if (support == SupportKind::kEverything && h.k != h.n && !nonfinite) {
    return DataLoss("k = ", h.k, " where everything is sent, expected n = ", h.n);
  }
  return OkStatus();
}

}  // namespace

WireHeader MakeWireHeader(const FrameHeader& header) {
  WireHeader wire{};
  wire.magic = kFrameMagic;
  wire.version = kFrameVersion;
  wire.flags = header.nonfinite ? kFlagNonfinite : 0;
  wire.dtype = static_cast<uint8_t>(header.dtype);
  wire.support = static_cast<uint8_t>(header.support);
  wire.n = header.n;
  wire.k = header.k;
  wire.index_id = header.index_id;
  wire.value_id = header.value_id;
  wire.seed = header.seed;
  return wire;
}

void BeginFrame(Bytes* out) { out->resize(out->size() + kFrameHeaderBytes); }

Status FinishFrame(const FrameHeader& header, size_t frame_begin, uint64_t num_index_bytes,
                   Bytes* out) {
  const uint64_t num_bytes = out->size() - frame_begin;
  if (num_bytes > kMaxFrameBytes) {
    return InvalidArgument("a frame of ", num_bytes, " bytes is above the limit of ",
                           kMaxFrameBytes);
  }
  WireHeader wire = MakeWireHeader(header);
  wire.num_bytes = static_cast<uint32_t>(num_bytes);
  wire.num_index_bytes = static_cast<uint32_t>(num_index_bytes);
  wire.num_value_bytes = static_cast<uint32_t>(num_bytes - kFrameHeaderBytes - num_index_bytes);

  unsigned char* begin = out->data() + frame_begin;
  std::memcpy(begin, &wire, kChecksumOffset);
  StoreUnaligned(begin + kChecksumOffset, ChecksumOf({begin, static_cast<size_t>(num_bytes)}));
  return OkStatus();
}

Status AppendFrame(const std::function<Result<uint64_t>()>& append_sections, FrameHeader* header,
                   Bytes* out) {
  const size_t begin = out->size();
  BeginFrame(out);
  const Result<uint64_t> num_index_bytes = header->nonfinite ? 0 : append_sections();
  const Status status = num_index_bytes.ok()
                            ? FinishFrame(*header, begin, num_index_bytes.value(), out)
                            : num_index_bytes.status();
  if (!status.ok()) out->resize(begin);
  return status;
}

Status ReadFrame(ByteReader* reader, Frame* frame) {
  const ByteReader at_begin = *reader;
  WireHeader wire;
  TFC_RETURN_IF_ERROR(ReadWireHeader(reader, &wire));
  TFC_RETURN_IF_ERROR(CheckWireHeader(wire));
  TFC_RETURN_IF_ERROR(
      reader->ReadSpan("index section", wire.num_index_bytes, &frame->sections.indices));
  TFC_RETURN_IF_ERROR(
      reader->ReadSpan("value section", wire.num_value_bytes, &frame->sections.values));
  ByteReader again = at_begin;
  TFC_RETURN_IF_ERROR(again.ReadSpan("frame", wire.num_bytes, &frame->bytes));

  FrameHeader& header = frame->header;
  header.nonfinite = (wire.flags & kFlagNonfinite) != 0;
  header.dtype = static_cast<DType>(wire.dtype);
  header.support = static_cast<SupportKind>(wire.support);
  header.n = wire.n;
  header.k = wire.k;
  header.index_id = wire.index_id;
  header.value_id = wire.value_id;
  header.seed = wire.seed;
  return OkStatus();
}

Status CountSent(ByteSpan frame, int64_t* num_sent) {
  ByteReader reader(frame);
  Frame parsed;
  TFC_RETURN_IF_ERROR(ReadFrame(&reader, &parsed));
  *num_sent += parsed.header.k;
  return OkStatus();
}

Status CheckClaimedElements(uint64_t num_frame_bytes, uint64_t num_elements) {
  const uint64_t limit =
      std::max(kMaxClaimedElements, kMaxClaimedElementsPerByte * num_frame_bytes);
  if (num_elements <= limit) return OkStatus();
  return DataLoss(num_frame_bytes, " bytes of frames claim ", num_elements,
                  " elements, more than the ", limit,
                  " that are decoded without the sizes of the tensors: decode with decode_sum");
}

Status VerifyChecksum(const Frame& frame) {
  const auto written = LoadUnaligned<uint32_t>(frame.bytes.data() + kChecksumOffset);
  const uint32_t computed = ChecksumOf(frame.bytes);
  if (written == computed) return OkStatus();
  return DataLoss("checksum is ", written, ", computed ", computed,
                  ": the bytes were changed on the way");
}

}  // namespace tfcompress
