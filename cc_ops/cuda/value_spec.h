// Value codecs with their parameters, and the lengths of their sections.
#ifndef TFCOMPRESS_CUDA_VALUE_SPEC_H_
#define TFCOMPRESS_CUDA_VALUE_SPEC_H_

#include <cstdint>

#include "core/bit_io.h"
#include "core/host_device.h"
#include "core/value/block_int_levels.h"
#include "core/value/double_exponential.h"
#include "core/value/reciprocal_log_levels.h"
#include "core/value/trits.h"
#include "cuda/ceil_div.h"

namespace tfcompress {
namespace device {

// The ids of the registry.
enum class ValueKind : uint8_t {
  kNone = 0,  // With a joint codec.
  kRaw = 1,
  kFp16 = 2,
  kBf16 = 3,
  kQuantile = 4,
  kDexp = 5,
  kQsgd = 7,
  kLog = 8,
  kLogquant = 9,
  kUniform = 10,
  kTernary = 11,
  kSign = 12,
  kBlockInt = 15,
};

// Whether sections begin with parameters common to all values; see coded_values.h.
inline bool IsCoded(ValueKind kind) { return kind > ValueKind::kBf16; }

// Whether a code is the rank of its value among all sorted values, and decodes by a table that is
// computed first.
TFC_HOST_DEVICE inline bool HasRanks(ValueKind kind) { return kind == ValueKind::kDexp; }
// Whether the length of a section depends on its values, and not on their number alone.
TFC_HOST_DEVICE inline bool IsMeasured(ValueKind kind) {
  return kind == ValueKind::kQuantile || kind == ValueKind::kLog || HasRanks(kind);
}
// Whether elements are removed from the support before it is encoded; see MarkKept.
inline bool Narrows(ValueKind kind) { return kind == ValueKind::kLog; }

struct ValueSpec {
  ValueKind kind;
  int num_bits;          // Bits of a code or of a number; not used by ternary, quantile, ranks.
  uint32_t bucket_size;  // qsgd, block_int
  LevelSpacing spacing;  // block_int
  uint32_t num_buckets;  // quantile: maximum in a spec, exact in a section.
  double clip;           // ternary
  double base;           // log
  uint32_t max_levels;   // log
  bool adapts;           // log: tau = 0.
  uint32_t num_curves;   // dexp: at most; of a section, as many.

  // Bytes of a section of k values; an upper bound if it IsMeasured.
  TFC_HOST_DEVICE uint64_t SectionBytes(uint64_t k) const {
    const uint64_t num_code_bytes =
        kind == ValueKind::kTernary ? NumTritBytes(k) : PackedBytes(k, CodeBits(k));
    return CodesBegin(k) + num_code_bytes;
  }
  // Bits of a code, except for ternary.
  TFC_HOST_DEVICE int CodeBits(uint64_t k) const {
    if (HasRanks(kind)) return BitsFor(k);
    return kind == ValueKind::kQuantile ? BitsFor(NumBuckets(k)) : num_bits;
  }
  // Number of buckets. Those of quantile are never empty.
  TFC_HOST_DEVICE uint64_t NumBuckets(uint64_t k) const {
    return num_buckets < k ? num_buckets : k;
  }
  // Number of sums over the values that the parameters are computed from.
  TFC_HOST_DEVICE int NumSums() const {
    if (kind == ValueKind::kSign) return 2;
    return kind == ValueKind::kLog || (kind == ValueKind::kTernary && clip != 0) ? 1 : 0;
  }
  // Bytes before the codes.
  TFC_HOST_DEVICE uint64_t CodesBegin(uint64_t k) const {
    if (kind == ValueKind::kQsgd || kind == ValueKind::kBlockInt)
      return HeaderBytes(kind) + BucketBytes(kind) * CeilDiv(k, bucket_size);
    if (kind == ValueKind::kQuantile) return HeaderBytes(kind) + BucketBytes(kind) * NumBuckets(k);
    if (kind == ValueKind::kDexp)
      return HeaderBytes(kind) + CurvePart::kCurveBytes * (num_curves - 1);
    return HeaderBytes(kind);
  }
  // Bytes of the norm, scale or mean of a bucket.
  TFC_HOST_DEVICE static uint64_t BucketBytes(ValueKind kind) {
    return kind == ValueKind::kBlockInt ? sizeof(uint16_t) : sizeof(float);
  }
  // Lower bound of the bytes before the codes, for every k > 0.
  TFC_HOST_DEVICE static uint64_t HeaderBytes(ValueKind kind) {
    switch (kind) {
      case ValueKind::kQsgd:
        return 5;
      case ValueKind::kUniform:
        return 9;
      case ValueKind::kLogquant:
      case ValueKind::kBlockInt:
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
