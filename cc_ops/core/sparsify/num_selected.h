// How many elements a ratio selects.
#ifndef TFCOMPRESS_CORE_SPARSIFY_NUM_SELECTED_H_
#define TFCOMPRESS_CORE_SPARSIFY_NUM_SELECTED_H_

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tfcompress {

// ratio * n rounded to nearest, at least 1 and at most n.
inline size_t NumSelected(double ratio, size_t n) {
  const auto rounded = static_cast<size_t>(std::llround(ratio * static_cast<double>(n)));
  return std::min(n, std::max<size_t>(1, rounded));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPARSIFY_NUM_SELECTED_H_
