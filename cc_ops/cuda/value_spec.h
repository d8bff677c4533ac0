// Value codecs with their parameters, and how long their sections are.
#ifndef TFCOMPRESS_CUDA_VALUE_SPEC_H_
#define TFCOMPRESS_CUDA_VALUE_SPEC_H_

#include <cstdint>

#include "core/bit_io.h"
#include "core/host_device.h"
#include "core/value/trits.h"
#include "cuda/ceil_div.h"

namespace tfcompress {
namespace device {

enum class ValueKind { kRaw, kFp16, kBf16, kQsgd, kUniform, kLogquant, kTernary, kSign };

// Whether sections begin with something that all values have in common: coded_values.h.
inline bool IsCoded(ValueKind kind) {
  return kind != ValueKind::kRaw && kind != ValueKind::kFp16 && kind != ValueKind::kBf16;
}

struct ValueSpec {
  ValueKind kind;
  int num_bits;          // Of a code, or of what stands for one; all but ternary.
  uint32_t bucket_size;  // qsgd
  double clip;           // ternary

  // Of k values.
  TFC_HOST_DEVICE uint64_t SectionBytes(uint64_t k) const {
    const uint64_t num_code_bytes =
        kind == ValueKind::kTernary ? NumTritBytes(k) : PackedBytes(k, num_bits);
    return CodesBegin(k) + num_code_bytes;
  }
  // Sums over the values that what a section begins with is made of.
  TFC_HOST_DEVICE int NumSums() const {
    if (kind == ValueKind::kSign) return 2;
    return kind == ValueKind::kTernary && clip != 0 ? 1 : 0;
  }
  // What precedes the codes.
  TFC_HOST_DEVICE uint64_t CodesBegin(uint64_t k) const {
    if (kind == ValueKind::kQsgd) return HeaderBytes(kind) + 4 * CeilDiv(k, bucket_size);
    return HeaderBytes(kind);
  }
  // What precedes the codes at every k.
  TFC_HOST_DEVICE static uint64_t HeaderBytes(ValueKind kind) {
    switch (kind) {
      case ValueKind::kQsgd:
        return 5;
      case ValueKind::kUniform:
        return 9;
      case ValueKind::kLogquant:
        return 2;
      case ValueKind::kTernary:
        return 4;
      case ValueKind::kSign:
        return 8;
      default:
        return 0;
    }
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUE_SPEC_H_
