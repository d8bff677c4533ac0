// The bits of a float, and the integers that sort as floats do. Codecs compare and clamp in these
// integers: every vector unit does, -0 equals +0, and NaN has a place.
#ifndef TFCOMPRESS_CORE_FLOAT_ORDER_H_
#define TFCOMPRESS_CORE_FLOAT_ORDER_H_

#include <cstdint>
#include <cstring>

#include "core/host_device.h"

namespace tfcompress {

TFC_HOST_DEVICE inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
TFC_HOST_DEVICE inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline constexpr uint32_t kFloatSignBit = 0x80000000u;
inline constexpr uint32_t kFloatMagnitudeBits = 0x7FFFFFFFu;
inline constexpr uint32_t kFloatInfinityBits = 0x7F800000u;
inline constexpr uint32_t kFloatNaNBits = 0x7FC00000u;  // The quiet NaN of numeric_limits.

inline constexpr uint32_t kLeastNormalBits = 0x00800000u;  // Of 2^-126.

// |value| as an integer. Finite floats are ordered by magnitude exactly as these integers are.
TFC_HOST_DEVICE inline uint32_t MagnitudeBits(float value) {
  return FloatBits(value) & kFloatMagnitudeBits;
}
TFC_HOST_DEVICE inline bool IsFiniteBits(uint32_t bits) {
  return (bits & kFloatInfinityBits) != kFloatInfinityBits;
}
// Whether a number that is not NaN is below zero; -0 is not.
TFC_HOST_DEVICE inline bool IsNegative(float value) { return FloatBits(value) > kFloatSignBit; }

// All bits where `bits` are those of a normal number, none where they are those of 0 or subnormal.
TFC_HOST_DEVICE inline uint32_t NormalMask(uint32_t bits) {
  return (bits & kFloatInfinityBits) != 0 ? 0xFFFFFFFFu : 0u;
}
// The wire format's arithmetic (FORMAT.md) takes subnormal numbers for +0 in most value codecs;
// that is no matter of the thread's mode (float_mode.h). `value`, +0 where it is subnormal.
TFC_HOST_DEVICE inline float FlushSubnormal(float value) {
  const uint32_t bits = FloatBits(value);
  return FloatFromBits(bits & NormalMask(bits));
}
// The same as a double.
TFC_HOST_DEVICE inline double NormalOrZero(float value) { return double{FlushSubnormal(value)}; }
// `value` rounded to a float, +0 where that is subnormal.
TFC_HOST_DEVICE inline float RoundToNormal(double value) {
  return FlushSubnormal(static_cast<float>(value));
}

// Values apart by sign: first those that are not negative (-0 counts as 0), then those that are.
inline constexpr uint32_t kNumSigns = 2;

// OrderedKey(0.0f): keys below it are those of negative numbers.
inline constexpr uint32_t kZeroKey = 0x80000000u;

// Maps finite floats to integers that compare the same way; -0 has the key of +0.
TFC_HOST_DEVICE inline uint32_t OrderedKey(float value) {
  const uint32_t bits = FloatBits(value);
  const uint32_t key = bits ^ (bits & kFloatSignBit ? 0xFFFFFFFFu : kFloatSignBit);
  return key + (key == kZeroKey - 1);
}

// Inverse of OrderedKey.
TFC_HOST_DEVICE inline float FloatFromKey(uint32_t key) {
  return FloatFromBits(key ^ (key < kZeroKey ? 0xFFFFFFFFu : kFloatSignBit));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FLOAT_ORDER_H_
