// The frame: the self-describing, self-delimiting, checksummed bytes of one tensor from one rank.
// A packet is frames end to end. Layout: FORMAT.md, "Frame".
#ifndef TFCOMPRESS_CORE_FRAME_H_
#define TFCOMPRESS_CORE_FRAME_H_

#include <cstdint>
#include <functional>

#include "core/byte_io.h"
#include "core/codec.h"
#include "core/dtype.h"

namespace tfcompress {

inline constexpr uint32_t kFrameMagic = 0x46434654;  // "TFCF"
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr uint64_t kFrameHeaderBytes = 44;
// Horovod counts the bytes of a collective in an int.
inline constexpr uint64_t kMaxFrameBytes = (uint64_t{1} << 31) - 1;

// The source of the support for receivers.
enum class SupportKind : uint8_t {
  kIndexSection = 0,  // From the index section.
  kEverything = 1,    // k == n; the index section is empty.
  kJoint = 2,         // A joint codec holds indices and values in the value section.
  kSeeded = 3,        // SeededSupport(n, k, seed); the index section is empty.
  kRows = 4,          // From the index section, for sparse rows: n and k count rows; see rows.h.
};

// The header's fields, except magic, version and lengths, which the writer and the reader handle.
struct FrameHeader {
  bool nonfinite = false;  // The tensor held NaN or Inf: no sections, decodes to NaN everywhere.
  DType dtype = DType::kFloat32;
  SupportKind support = SupportKind::kIndexSection;
  uint32_t n = 0;
  uint32_t k = 0;
  uint8_t index_id = 0;  // Registry id; 0 if the support needs no index codec.
  uint8_t value_id = 0;  // Registry id of a ValueCodec, or with kJoint of a joint SparseCodec.
  uint64_t seed = 0;
};

// The two parts of what a frame holds. A joint codec puts everything in `values`.
struct FrameSections {
  ByteSpan indices;
  ByteSpan values;
};

// A parsed frame; the sections borrow from the packet.
struct Frame {
  FrameHeader header;
  FrameSections sections;
  ByteSpan bytes;  // All of it.
};

// Appends space for a header to `out`; the codecs then append the sections.
void BeginFrame(Bytes* out);
// Fills in the header that begins at `frame_begin` for the index and value sections that follow it.
// Fails with InvalidArgument when the frame is longer than kMaxFrameBytes.
Status FinishFrame(const FrameHeader& header, size_t frame_begin, uint64_t num_index_bytes,
                   Bytes* out);

// Appends a whole frame: `append_sections` appends index and value section to `out`, returns the
// length of the index section, and may change the header. It is not called for a non-finite tensor.
// On failure `out` has its former length.
Status AppendFrame(const std::function<Result<uint64_t>()>& append_sections, FrameHeader* header,
                   Bytes* out);

// What decoding a frame allocates at most, on one thread: so many bytes for each element of the
// tensor (rows times width of a table) and for each byte of the frame, and so many for tables.
// FORMAT.md, "What a frame may cost". Some codecs code any number of elements in a few bytes, so
// that the size of the tensor has to justify what its frame's bytes do not.
inline constexpr uint64_t kDecodeBytesPerElement = 32;
inline constexpr uint64_t kDecodeBytesPerFrameByte = 256;
inline constexpr uint64_t kDecodeTableBytes = uint64_t{1} << 20;
inline uint64_t MaxDecodeBytes(uint64_t num_elements, uint64_t num_frame_bytes) {
  return kDecodeBytesPerElement * num_elements + kDecodeBytesPerFrameByte * num_frame_bytes +
         kDecodeTableBytes;
}

// The elements that frames may claim together where nobody knows the sizes of their tensors.
inline constexpr uint64_t kMaxClaimedElements = uint64_t{1} << 24;
inline constexpr uint64_t kMaxClaimedElementsPerByte = uint64_t{1} << 16;

// Reads the next frame and checks all but its checksum and its sections' content.
Status ReadFrame(ByteReader* reader, Frame* frame);
// Adds the elements of a frame that this rank wrote to `num_sent`.
Status CountSent(ByteSpan frame, int64_t* num_sent);
// Fails with DataLoss where frames of so many bytes, whose tensors have `num_elements` together by
// the frames' own word alone, claim more than kMaxClaimedElements and more than
// kMaxClaimedElementsPerByte of their bytes.
Status CheckClaimedElements(uint64_t num_frame_bytes, uint64_t num_elements);
// Fails with DataLoss when the bytes are not those that were written.
Status VerifyChecksum(const Frame& frame);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FRAME_H_
