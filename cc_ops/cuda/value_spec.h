// Value codecs with their parameters, and how long their sections are.
#ifndef TFCOMPRESS_CUDA_VALUE_SPEC_H_
#define TFCOMPRESS_CUDA_VALUE_SPEC_H_

#include <cstdint>

#include "core/bit_io.h"
#include "core/host_device.h"
#include "core/value/double_exponential.h"
#include "core/value/polynomial_basis.h"
#include "core/value/reciprocal_log_levels.h"
#include "core/value/trits.h"
#include "cuda/ceil_div.h"

namespace tfcompress {
namespace device {

enum class ValueKind {
  kRaw,
  kFp16,
  kBf16,
  kQsgd,
  kUniform,
  kLogquant,
  kTernary,
  kSign,
  kQuantile,
  kLog,
  kDexp,
  kPoly
};

// Whether sections begin with something that all values have in common: coded_values.h.
inline bool IsCoded(ValueKind kind) {
  return kind != ValueKind::kRaw && kind != ValueKind::kFp16 && kind != ValueKind::kBf16;
}

// Whether a code is the place of its value among all values, sorted, and decodes to a float of a
// table that is made first.
TFC_HOST_DEVICE inline bool HasRanks(ValueKind kind) {
  return kind == ValueKind::kDexp || kind == ValueKind::kPoly;
}
// Whether the length of a section depends on its values, and not on their number alone.
TFC_HOST_DEVICE inline bool IsMeasured(ValueKind kind) {
  return kind == ValueKind::kQuantile || kind == ValueKind::kLog || HasRanks(kind);
}
// Whether elements are taken out of the support before it is encoded: MarkKept.
inline bool Narrows(ValueKind kind) { return kind == ValueKind::kLog; }

struct ValueSpec {
  ValueKind kind;
  int num_bits;          // Of a code, or of what stands for one; not ternary, quantile, ranks.
  uint32_t bucket_size;  // qsgd
  uint32_t num_buckets;  // quantile: at most; of a section, as many.
  double clip;           // ternary
  double base;           // log
  uint32_t max_levels;   // log
  bool adapts;           // log: tau = 0.
  uint32_t num_curves;   // dexp: at most; of a section, as many.
  PolynomialConfig poly;

  // Of k values; where it IsMeasured, at most.
  TFC_HOST_DEVICE uint64_t SectionBytes(uint64_t k) const {
    const uint64_t num_code_bytes =
        kind == ValueKind::kTernary ? NumTritBytes(k) : PackedBytes(k, CodeBits(k));
    return CodesBegin(k) + num_code_bytes;
  }
  // All but ternary.
  TFC_HOST_DEVICE int CodeBits(uint64_t k) const {
    if (HasRanks(kind)) return BitsFor(k);
    return kind == ValueKind::kQuantile ? BitsFor(NumBuckets(k)) : num_bits;
  }
  // None of quantile is empty.
  TFC_HOST_DEVICE uint64_t NumBuckets(uint64_t k) const {
    return num_buckets < k ? num_buckets : k;
  }
  // Sums over the values that what a section begins with is made of.
  TFC_HOST_DEVICE int NumSums() const {
    if (kind == ValueKind::kSign) return 2;
    return kind == ValueKind::kLog || (kind == ValueKind::kTernary && clip != 0) ? 1 : 0;
  }
  // What precedes the codes, of poly at most.
  TFC_HOST_DEVICE uint64_t CodesBegin(uint64_t k) const {
    if (kind == ValueKind::kQsgd) return HeaderBytes(kind) + 4 * CeilDiv(k, bucket_size);
    if (kind == ValueKind::kQuantile) return HeaderBytes(kind) + 4 * NumBuckets(k);
    if (kind == ValueKind::kDexp)
      return HeaderBytes(kind) + CurvePart::kCurveBytes * (num_curves - 1);
    if (kind == ValueKind::kPoly) return poly.MaxBytes(k);
    return HeaderBytes(kind);
  }
  // What precedes the codes at every k > 0.
  TFC_HOST_DEVICE static uint64_t HeaderBytes(ValueKind kind) {
    switch (kind) {
      case ValueKind::kQsgd:
        return 5;
      case ValueKind::kUniform:
        return 9;
      case ValueKind::kLogquant:
        return 2;
      case ValueKind::kTernary:
      case ValueKind::kQuantile:
        return 4;
      case ValueKind::kSign:
        return 8;
      case ValueKind::kLog:
        return LogScale::kNumBytes;
      case ValueKind::kDexp:
        return 2 * sizeof(uint32_t) + CurvePart::kCurveBytes;
      default:
        return 0;
    }
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUE_SPEC_H_
