// Where the fields of a frame lie (FORMAT.md, "Frame"), for tests that write them by hand: a second
// description, so that a change of the first one does not go unseen.
#ifndef TFCOMPRESS_CC_TESTS_FUZZ_FRAME_FIELDS_H_
#define TFCOMPRESS_CC_TESTS_FUZZ_FRAME_FIELDS_H_

#include <cstdint>

#include "core/byte_io.h"
#include "core/crc32c.h"

namespace tfcompress {
namespace frame_fields {

inline constexpr size_t kMagic = 0;
inline constexpr size_t kVersion = 4;
inline constexpr size_t kFlags = 5;
inline constexpr size_t kDType = 6;
inline constexpr size_t kSupport = 7;
inline constexpr size_t kNumBytes = 8;
inline constexpr size_t kN = 12;
inline constexpr size_t kK = 16;
inline constexpr size_t kIndexId = 20;
inline constexpr size_t kValueId = 21;
inline constexpr size_t kReserved = 22;
inline constexpr size_t kNumIndexBytes = 24;
inline constexpr size_t kNumValueBytes = 28;
inline constexpr size_t kSeed = 32;
inline constexpr size_t kChecksum = 40;
inline constexpr size_t kHeaderBytes = 44;

}  // namespace frame_fields

template <typename T>
T GetField(const Bytes& frame, size_t offset) {
  return LoadUnaligned<T>(frame.data() + offset);
}

template <typename T>
void SetField(size_t offset, T value, Bytes* frame) {
  StoreUnaligned(frame->data() + offset, value);
}

// Makes the checksum right for a frame of at least a header whose other bytes were changed.
inline void RepairChecksum(Bytes* frame) {
  const ByteSpan bytes(*frame);
  const uint32_t before = Crc32c(bytes.subspan(0, frame_fields::kChecksum));
  const size_t num_rest = frame->size() - frame_fields::kHeaderBytes;
  SetField(frame_fields::kChecksum,
           Crc32c(bytes.subspan(frame_fields::kHeaderBytes, num_rest), before), frame);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_FUZZ_FRAME_FIELDS_H_
