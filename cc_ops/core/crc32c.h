// CRC-32C (Castagnoli): finds every burst of up to 32 flipped bits. x86 and AArch64 have
// instructions for it.
#ifndef TFCOMPRESS_CORE_CRC32C_H_
#define TFCOMPRESS_CORE_CRC32C_H_

#include <cstdint>

#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

// The polynomial with its bits reversed: the highest bit is the coefficient of 1.
inline constexpr uint32_t kCrc32cPolynomial = 0x82F63B78u;

// Continues a CRC's state, which is the complement of the CRC, over one byte, by definition.
TFC_HOST_DEVICE inline uint32_t ExtendCrc32cState(uint32_t state, unsigned char byte) {
  state ^= byte;
  for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) ? kCrc32cPolynomial : 0);
  return state;
}

// The CRC of `bytes`; pass the result of a first part as `crc` to continue over a second one.
uint32_t Crc32c(ByteSpan bytes, uint32_t crc = 0);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_CRC32C_H_
