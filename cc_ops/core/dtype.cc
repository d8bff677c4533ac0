#include "core/dtype.h"

#include <cstring>

#include "core/byte_io.h"

namespace tfcompress {
namespace {

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
