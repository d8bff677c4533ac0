// The order of SortedValues as integers: nonnegative values (with -0), then negative ones, each
// sign by descending magnitude.
#ifndef TFCOMPRESS_CORE_VALUE_SORT_KEY_H_
#define TFCOMPRESS_CORE_VALUE_SORT_KEY_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

TFC_HOST_DEVICE inline uint32_t SortKey(float value) {
  const uint32_t bits = FloatBits(value);
  return (bits == kFloatSignBit ? 0 : bits) ^ kFloatMagnitudeBits;
}
TFC_HOST_DEVICE inline bool IsNonnegativeKey(uint32_t key) { return (key & kFloatSignBit) == 0; }
TFC_HOST_DEVICE inline float MagnitudeOfKey(uint32_t key) {
  return FloatFromBits(~key & kFloatMagnitudeBits);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_SORT_KEY_H_
