// The values of a support.
#ifndef TFCOMPRESS_CC_TESTS_VALUES_AT_H_
#define TFCOMPRESS_CC_TESTS_VALUES_AT_H_

#include <vector>

#include "core/codec.h"

namespace tfcompress {

// Those of `dense`, or zeros where the support is none.
inline std::vector<float> ValuesAt(const Support& support, const std::vector<float>& dense) {
  std::vector<float> values(support.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (support[i] < dense.size()) values[i] = dense[support[i]];
  return values;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_VALUES_AT_H_
