// Feeds bytes to everything that reads them off the wire. What is not refused must be in range.
//
// Decoding may allocate what frame.h states, and no more; an input that takes a minute is a fault,
// too (libFuzzer's -timeout, standalone_main.cc).
//
// An input is tried twice: as a packet, as it is; and as one frame whose framing (magic, version,
// lengths, checksum) is made right, so that the codecs behind it are reached.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "allocation_operators.h"
#include "core/pipeline.h"
#include "core/registry.h"
#include "core/rows.h"
#include "frame_fields.h"

namespace tfcompress {
namespace {

#define TFC_FUZZ_CHECK(condition)                                                   \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                 \
    }                                                                               \
  } while (false)

// Calls `decode` and checks what it allocated for a tensor of so many elements.
template <typename Decode>
Status Measured(const Frame& frame, uint64_t num_elements, const Decode& decode) {
  Status status;
  const uint64_t peak = PeakAllocation([&] { status = decode(); });
  TFC_FUZZ_CHECK(peak <= MaxDecodeBytes(num_elements, frame.bytes.size()));
  return status;
}

void CheckDecoded(const Frame& frame, const SparseTensor& decoded) {
  TFC_FUZZ_CHECK(decoded.n == frame.header.n);
  TFC_FUZZ_CHECK(decoded.values.size() == frame.header.k);
  for (float value : decoded.values) TFC_FUZZ_CHECK(std::isfinite(value));
  if (decoded.everything) {
    TFC_FUZZ_CHECK(frame.header.k == frame.header.n);
    return;
  }
  TFC_FUZZ_CHECK(decoded.indices.size() == frame.header.k);
  TFC_FUZZ_CHECK(CheckIndices(decoded.indices, decoded.n).ok());
}

// DecodeSum over one rank gives what DecodeFrame gave.
void CheckSum(const Frame& frame, const SparseTensor& decoded) {
  std::vector<float> sum(frame.header.n);
  std::vector<unsigned char> narrow(frame.header.n * 2);
  const bool is_wide = frame.header.dtype == DType::kFloat32;
  const SumTarget target = {is_wide ? static_cast<void*>(sum.data()) : narrow.data(),
                            frame.header.dtype, frame.header.n};
  TFC_FUZZ_CHECK(
      DecodeSum(frame.bytes, 1, 1.0f, Span<const SumTarget>(&target, 1), SerialExecutor(), {})
          .ok());
  if (!is_wide) return;
  const Support support = decoded.support();
  for (size_t i = 0; i < decoded.values.size(); ++i) {
    const float value = sum[support[i]];
    TFC_FUZZ_CHECK(frame.header.nonfinite ? std::isnan(value) : value == decoded.values[i]);
  }
}

// A frame of rows, or a joint one that may be taken for it.
void DecodeRows(const Frame& frame, const Table& table) {
  const uint64_t num_elements = table.num_rows * table.width;
  if (!CheckClaimedElements(frame.bytes.size(), num_elements).ok()) return;
  SparseRows rows, sum;
  const Status status = Measured(
      frame, num_elements, [&] { return DecodeRowsFrame(frame, table, SerialExecutor(), &rows); });
  if (!status.ok()) return;
  TFC_FUZZ_CHECK(CheckIndices(rows.ids, static_cast<uint32_t>(table.num_rows)).ok());
  TFC_FUZZ_CHECK(rows.values.size() == rows.ids.size() * table.width);
  for (float value : rows.values) TFC_FUZZ_CHECK(std::isfinite(value));
  TFC_FUZZ_CHECK(
      DecodeRowsSum({frame.bytes, 1, 1}, 0, table, 1.0f, SerialExecutor(), &sum, nullptr).ok());
  if (frame.header.nonfinite) {
    TFC_FUZZ_CHECK(sum.ids.size() == (table.num_rows > 0));
    return;
  }
  TFC_FUZZ_CHECK(sum.ids == rows.ids);
  TFC_FUZZ_CHECK(sum.values == rows.values);
}

void DecodePacket(const Bytes& packet) {
  ByteReader reader(packet);
  Frame frame;
  while (reader.remaining() > 0 && ReadFrame(&reader, &frame).ok()) {
    if (frame.header.support == SupportKind::kRows) {
      const uint32_t width = std::max(1u, RowWidth(frame));
      DecodeRows(frame, {frame.header.n, width, frame.header.dtype});
    } else if (frame.header.support == SupportKind::kJoint) {
      const uint32_t width = frame.header.n % 4 == 0 ? 4 : 1;
      DecodeRows(frame, {frame.header.n / width, width, frame.header.dtype});
    }
    if (!CheckClaimedElements(frame.bytes.size(), frame.header.n).ok()) continue;
    SparseTensor decoded;
    const Status status = Measured(frame, frame.header.n,
                                   [&] { return DecodeFrame(frame, SerialExecutor(), &decoded); });
    if (!status.ok()) continue;
    CheckDecoded(frame, decoded);
    CheckSum(frame, decoded);
  }
}

// The codecs that the first byte of an input can choose.
struct Selection {
  SupportKind support;
  uint8_t index_id;
  uint8_t value_id;
};

std::vector<Selection> Selections() {
  const uint8_t raw_index = FindByName<IndexCodec>("raw")->id;
  const uint8_t raw_value = FindByName<ValueCodec>("raw")->id;
  std::vector<Selection> selections;
  for (const auto& row : Registry<IndexCodec>()) {
    selections.push_back({SupportKind::kIndexSection, row.id, raw_value});
    selections.push_back({SupportKind::kRows, row.id, raw_value});
  }
  for (const auto& row : Registry<ValueCodec>()) {
    selections.push_back({SupportKind::kIndexSection, raw_index, row.id});
    selections.push_back({SupportKind::kRows, raw_index, row.id});
    selections.push_back({SupportKind::kEverything, 0, row.id});
    selections.push_back({SupportKind::kSeeded, 0, row.id});
  }
  for (const auto& row : Registry<SparseCodec>()) {
    selections.push_back({SupportKind::kJoint, 0, row.id});
  }
  return selections;
}

// A size from 1 to 2^24, as it is where it is one already; others as often of each number of binary
// digits, so that most inputs take little time.
uint32_t SizeFrom(uint32_t bits) {
  if (bits >= 1 && bits <= 1u << 24) return bits;
  return 1 + (bits & ((1u << (bits >> 24) % 25) - 1));
}

// Makes the framing right, whatever the input says of it. A frame that begins with the magic keeps
// its codecs, if they may stand together; in any other, the first byte chooses them.
Bytes RepairFrame(Bytes frame) {
  using namespace frame_fields;
  static const std::vector<Selection> selections = Selections();
  if (frame.size() < kHeaderBytes) frame.resize(kHeaderBytes, 0);
  if (GetField<uint32_t>(frame, kMagic) != kFrameMagic) {
    const Selection& selection = selections[frame[0] % selections.size()];
    SetField(kSupport, static_cast<uint8_t>(selection.support), &frame);
    SetField(kIndexId, selection.index_id, &frame);
    SetField(kValueId, selection.value_id, &frame);
  }
  SetField(kMagic, kFrameMagic, &frame);
  SetField(kVersion, kFrameVersion, &frame);
  SetField<uint8_t>(kFlags, 0, &frame);
  SetField<uint8_t>(kDType, 1 + frame[kDType] % 3, &frame);
  SetField<uint8_t>(kSupport, frame[kSupport] % 5, &frame);
  SetField<uint16_t>(kReserved, 0, &frame);

  const uint32_t n = SizeFrom(GetField<uint32_t>(frame, kN));
  const bool is_rows = frame[kSupport] == static_cast<uint8_t>(SupportKind::kRows);
  const bool is_indexed =
      is_rows || frame[kSupport] == static_cast<uint8_t>(SupportKind::kIndexSection);
  const bool is_everything = frame[kSupport] == static_cast<uint8_t>(SupportKind::kEverything);
  SetField(kN, n, &frame);
  const uint32_t k = SizeFrom(GetField<uint32_t>(frame, kK));
  SetField(kK, is_everything ? n : k <= n ? k : 1 + k % n, &frame);
  if (!is_indexed) SetField<uint8_t>(kIndexId, 0, &frame);

  const auto num_section_bytes = static_cast<uint32_t>(frame.size() - kHeaderBytes);
  const uint32_t num_index_bytes =
      is_indexed ? GetField<uint32_t>(frame, kNumIndexBytes) % (num_section_bytes + 1) : 0;
  if (is_rows && num_index_bytes >= sizeof(uint32_t)) {
    SetField(kHeaderBytes, SizeFrom(GetField<uint32_t>(frame, kHeaderBytes)), &frame);
  }
  SetField(kNumBytes, static_cast<uint32_t>(frame.size()), &frame);
  SetField(kNumIndexBytes, num_index_bytes, &frame);
  SetField(kNumValueBytes, num_section_bytes - num_index_bytes, &frame);
  RepairChecksum(&frame);
  return frame;
}

void DecodeRepaired(const Bytes& input) {
  const Bytes bytes = RepairFrame(input);
  ByteReader reader(bytes);
  Frame frame;
  TFC_FUZZ_CHECK(ReadFrame(&reader, &frame).ok());
  TFC_FUZZ_CHECK(VerifyChecksum(frame).ok());
  DecodePacket(bytes);
}

}  // namespace
}  // namespace tfcompress

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tfcompress::Bytes input(data, data + size);
  tfcompress::DecodePacket(input);
  tfcompress::DecodeRepaired(input);
  return 0;
}
