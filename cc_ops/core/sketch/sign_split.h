// Separates elements by sign. Codecs with collisions allow them only among values of one sign.
#ifndef TFCOMPRESS_CORE_SKETCH_SIGN_SPLIT_H_
#define TFCOMPRESS_CORE_SKETCH_SIGN_SPLIT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/codec.h"
#include "core/float_order.h"
#include "core/span.h"

namespace tfcompress {

// The elements of one sign, in the order of their keys.
struct SignPart {
  std::vector<uint32_t> keys;
  std::vector<float> magnitudes;
};

// Returns the nonnegative elements (-0 counts as 0), then the negative ones.
std::array<SignPart, kNumSigns> SplitSigns(const Support& support, Span<const float> values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_SIGN_SPLIT_H_
