// The header of a frame (FORMAT.md, "Frame"). The first kFrameHeaderBytes bytes of the struct are
// those on the wire: it is read and written by copying them.
#ifndef TFCOMPRESS_CORE_WIRE_HEADER_H_
#define TFCOMPRESS_CORE_WIRE_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "core/frame.h"

namespace tfcompress {

inline constexpr uint8_t kFlagNonfinite = 1;

struct WireHeader {
  uint32_t magic;
  uint8_t version;
  uint8_t flags;
  uint8_t dtype;
  uint8_t support;
  uint32_t num_bytes;
  uint32_t n;
  uint32_t k;
  uint8_t index_id;
  uint8_t value_id;
  uint16_t reserved;
  uint32_t num_index_bytes;
  uint32_t num_value_bytes;
  uint64_t seed;
  uint32_t checksum;
};

// The checksum is the header's last field and covers everything else.
inline constexpr uint64_t kChecksumOffset = kFrameHeaderBytes - sizeof(uint32_t);
static_assert(offsetof(WireHeader, checksum) == kChecksumOffset);
// The offsets that FORMAT.md lists.
static_assert(offsetof(WireHeader, magic) == 0 && offsetof(WireHeader, version) == 4 &&
              offsetof(WireHeader, flags) == 5 && offsetof(WireHeader, dtype) == 6 &&
              offsetof(WireHeader, support) == 7 && offsetof(WireHeader, num_bytes) == 8 &&
              offsetof(WireHeader, n) == 12 && offsetof(WireHeader, k) == 16 &&
              offsetof(WireHeader, index_id) == 20 && offsetof(WireHeader, value_id) == 21 &&
              offsetof(WireHeader, reserved) == 22 && offsetof(WireHeader, num_index_bytes) == 24 &&
              offsetof(WireHeader, num_value_bytes) == 28 && offsetof(WireHeader, seed) == 32);

// Makes a header with all fields set except the lengths and the checksum, which are 0.
WireHeader MakeWireHeader(const FrameHeader& header);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_WIRE_HEADER_H_
