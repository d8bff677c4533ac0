// The one pass over the dense vector that `nonzero`, `threshold` and `topk` share: list the
// elements whose magnitude reaches a bound.
#ifndef TFCOMPRESS_CORE_SPARSIFY_COLLECT_H_
#define TFCOMPRESS_CORE_SPARSIFY_COLLECT_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/executor.h"
#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

// |x| as an integer. Finite floats are ordered by magnitude exactly as these integers are.
TFC_HOST_DEVICE inline uint32_t MagnitudeBits(float x) {
  return LoadUnaligned<uint32_t>(&x) & 0x7FFFFFFF;
}

// Overwrites `indices`, ascending, with every i where MagnitudeBits(dense[i]) >= min_magnitude, and
// `magnitudes`, unless it is null, with their magnitudes.
void CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor,
                    std::vector<uint32_t>* indices, std::vector<uint32_t>* magnitudes = nullptr);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPARSIFY_COLLECT_H_
