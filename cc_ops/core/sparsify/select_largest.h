// The exact selection of the k largest magnitudes.
#ifndef TFCOMPRESS_CORE_SPARSIFY_SELECT_LARGEST_H_
#define TFCOMPRESS_CORE_SPARSIFY_SELECT_LARGEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/span.h"

namespace tfcompress {

// Overwrites `indices`, ascending, with those of the k <= dense.size() elements of largest
// magnitude, ties by lower index. Inf is larger than every number, NaN larger than Inf.
void SelectLargest(Span<const float> dense, size_t k, Executor* executor,
                   std::vector<uint32_t>* indices);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPARSIFY_SELECT_LARGEST_H_
