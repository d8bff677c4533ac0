#include "core/dtype.h"

#include <cstring>

#include "core/byte_io.h"

namespace tfcompress {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <typename Convert>
void WidenBlocks(const void* data, Executor* executor, Span<float> out, Convert convert) {
  const auto* source = static_cast<const unsigned char*>(data);
  ForEachBlock(executor, out.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = convert(LoadUnaligned<uint16_t>(source + 2 * i));
  });
}

template <typename Convert>
void NarrowBlocks(Span<const float> values, Executor* executor, void* data, Convert convert) {
  auto* target = static_cast<unsigned char*>(data);
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      StoreUnaligned<uint16_t>(target + 2 * i, convert(values[i]));
  });
}

}  // namespace

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = BitsOf(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;   // NaN, quiet.
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // Rounds to infinity, or is infinite.
  if (magnitude < 0x38800000u) {
    // Below the smallest normal half: the float addition rounds to a multiple of 2^-24 exactly.
    const float rounded = FromBits(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(BitsOf(rounded) - BitsOf(0.5f));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | static_cast<uint16_t>((magnitude - (112u << 23) + 0xFFFu + odd) >> 13);
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return FromBits(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
  if (magnitude < 0x0400u) {
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -subnormal : subnormal;
  }
  return FromBits(sign | ((magnitude << 13) + (112u << 23)));
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float BFloat16ToFloat(uint16_t bfloat16) { return FromBits(static_cast<uint32_t>(bfloat16) << 16); }

void WidenToFloat(const void* data, DType dtype, Executor* executor, Span<float> out) {
  switch (dtype) {
    case DType::kFloat32:
      if (!out.empty()) std::memcpy(out.data(), data, out.size() * sizeof(float));
      return;
    case DType::kFloat16:
      return WidenBlocks(data, executor, out, HalfToFloat);
    case DType::kBFloat16:
      return WidenBlocks(data, executor, out, BFloat16ToFloat);
  }
}

Span<const float> ViewAsFloat(const void* data, DType dtype, uint64_t n, Executor* executor,
                              std::vector<float>* storage) {
  if (dtype == DType::kFloat32) return {static_cast<const float*>(data), static_cast<size_t>(n)};
  storage->resize(n);
  WidenToFloat(data, dtype, executor, Span<float>(*storage));
  return *storage;
}

void NarrowFromFloat(Span<const float> values, DType dtype, Executor* executor, void* data) {
  switch (dtype) {
    case DType::kFloat32:
      if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(float));
      return;
    case DType::kFloat16:
      return NarrowBlocks(values, executor, data, FloatToHalf);
    case DType::kBFloat16:
      return NarrowBlocks(values, executor, data, FloatToBFloat16);
  }
}

}  // namespace tfcompress
