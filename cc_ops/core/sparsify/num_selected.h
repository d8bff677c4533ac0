// The parameter `ratio`, and the number of elements that it selects.
#ifndef TFCOMPRESS_CORE_SPARSIFY_NUM_SELECTED_H_
#define TFCOMPRESS_CORE_SPARSIFY_NUM_SELECTED_H_

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/registry.h"

namespace tfcompress {

// ratio * n rounded to nearest, at least 1 and at most n.
inline size_t NumSelected(double ratio, size_t n) {
  const auto rounded = static_cast<size_t>(std::llround(ratio * static_cast<double>(n)));
  return std::min(n, std::max<size_t>(1, rounded));
}

// The share of the elements that is sent, in (0, 1].
inline ParamSpec RatioParam() {
  return {
      "ratio", ParamKind::kFloat, "0.01", "share of the elements that is sent; at least one is", 0,
      1,       /*min_open=*/true};
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPARSIFY_NUM_SELECTED_H_
