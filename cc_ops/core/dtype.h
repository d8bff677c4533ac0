// Element types of gradients, and the conversions between them and float.
#ifndef TFCOMPRESS_CORE_DTYPE_H_
#define TFCOMPRESS_CORE_DTYPE_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/half.h"
#include "core/span.h"

namespace tfcompress {

// The values are part of the wire format.
enum class DType : uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3 };

// Whether `code` is one of the enumerators.
inline bool IsDType(uint8_t code) { return code >= 1 && code <= 3; }
inline int DTypeBytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }
const char* DTypeName(DType dtype);

// Converts n elements at `data` to float.
void WidenToFloat(const void* data, DType dtype, Executor* executor, Span<float> out);
// Returns a view of the elements as floats: of the data if it is float32, else of a copy in
// `storage`.
Span<const float> ViewAsFloat(const void* data, DType dtype, uint64_t n, Executor* executor,
                              std::vector<float>* storage);
// Converts floats to `dtype` at `data`.
void NarrowFromFloat(Span<const float> values, DType dtype, Executor* executor, void* data);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_DTYPE_H_
