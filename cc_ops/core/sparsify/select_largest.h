// The exact selection of the k largest magnitudes.
#ifndef TFCOMPRESS_CORE_SPARSIFY_SELECT_LARGEST_H_
#define TFCOMPRESS_CORE_SPARSIFY_SELECT_LARGEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/by_magnitude.h"
#include "core/executor.h"
#include "core/span.h"

namespace tfcompress {

// Where not the vector is at hand but its elements are made one after the other: the magnitude that
// an element needs to be a candidate for the k <= n of largest magnitude, guessed from a few of the
// n elements, ...
uint32_t LeastOfLargest(int64_t n, int64_t k, const ReadElements& read);
// ... and, once they are all made, those k of the candidates, which are all elements of `dense` of
// that magnitude. A guess that was too high costs further passes over `dense`.
void KeepLargest(Span<const float> dense, size_t k, uint32_t least_magnitude, Executor* executor,
                 Candidates* candidates);

// Overwrites `indices`, ascending, with those of the k <= dense.size() elements of largest
// magnitude, ties by lower index. Inf is larger than every number, NaN larger than Inf.
void SelectLargest(Span<const float> dense, size_t k, Executor* executor,
                   std::vector<uint32_t>* indices);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPARSIFY_SELECT_LARGEST_H_
