// Tables of what launches work on side by side, such as the frames of all tensors and ranks: the
// number of launches does not depend on how many there are. See LaunchParts.
#ifndef TFCOMPRESS_CUDA_PARTS_H_
#define TFCOMPRESS_CUDA_PARTS_H_

#include <cstddef>

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

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PARTS_H_
