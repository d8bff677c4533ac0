// Tables of what launches work on side by side, such as the frames of all tensors and ranks: the
// number of launches does not depend on how many there are. See LaunchParts.
#ifndef TFCOMPRESS_CUDA_PARTS_H_
#define TFCOMPRESS_CUDA_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "core/span.h"

namespace tfcompress {
namespace device {

// Most parts of a launch: rows of a grid.
inline constexpr size_t kMaxParts = 65535;

// The same table on the host, from which sizes of launches follow, and on the device.
template <typename T>
struct Parts {
  Span<const T> on_host;
  const T* data_dev;

  size_t size() const { return on_host.size(); }
  Parts Slice(size_t first, size_t count) const {
    return {on_host.subspan(first, count), data_dev + first};
  }
};

// Items of the parts, from which the number of blocks follows.
struct PartItems {
  uint64_t largest = 0;
  uint64_t total = 0;
  uint64_t num_rounds = 4;  // Blocks of all parts, in multiples of those that run at the same time.
};

// Adds up count(part).
template <typename T, typename Count>
PartItems CountItems(Span<const T> parts, const Count& count) {
  PartItems items;
  for (const T& part : parts) {
    const uint64_t own = count(part);
    if (own > items.largest) items.largest = own;
    items.total += own;
  }
  return items;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PARTS_H_
