// Nearly normal values, the same on every machine.
#ifndef TFCOMPRESS_CC_TESTS_BELL_VALUES_H_
#define TFCOMPRESS_CC_TESTS_BELL_VALUES_H_

#include <cstddef>
#include <vector>

#include "core/hash.h"

namespace tfcompress {

// Sums of twelve uniform numbers, of mean 0 and variance 1; other ones for another size.
inline std::vector<float> BellValues(size_t size) {
  Random random(size);
  std::vector<float> values(size, -6);
  for (float& value : values) {
    for (int i = 0; i < 12; ++i) value += random.NextFloat();
  }
  return values;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_BELL_VALUES_H_
