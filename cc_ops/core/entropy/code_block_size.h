// The number of items in a code block; shared with kernels. FORMAT.md, "Code blocks".
#ifndef TFCOMPRESS_CORE_ENTROPY_CODE_BLOCK_SIZE_H_
#define TFCOMPRESS_CORE_ENTROPY_CODE_BLOCK_SIZE_H_

#include <cstdint>

#include "core/host_device.h"

namespace tfcompress {

inline constexpr int64_t kCodeBlock = int64_t{1} << 16;

TFC_HOST_DEVICE inline uint64_t NumCodeBlocks(uint64_t num_items) {
  constexpr auto kItems = static_cast<uint64_t>(kCodeBlock);
  return (num_items + kItems - 1) / kItems;
}

// Upper bound of the bytes that code blocks add to the bits of their items: lengths and padding.
inline uint64_t MaxCodeBlockOverhead(uint64_t num_items) {
  return NumCodeBlocks(num_items) * (sizeof(uint32_t) + 1);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_CODE_BLOCK_SIZE_H_
