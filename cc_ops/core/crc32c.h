// CRC-32C (Castagnoli): finds every burst of up to 32 flipped bits, and has an instruction on x86.
#ifndef TFCOMPRESS_CORE_CRC32C_H_
#define TFCOMPRESS_CORE_CRC32C_H_

#include <cstdint>

#include "core/span.h"

namespace tfcompress {

// The CRC of `bytes`; pass the result of a first part as `crc` to continue over a second one.
uint32_t Crc32c(ByteSpan bytes, uint32_t crc = 0);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_CRC32C_H_
