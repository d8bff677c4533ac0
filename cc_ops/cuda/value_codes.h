// Coded values: the code that each codec gives a value at a position, and the packing of codes in
// bytes. A section begins with the parameters in ValueParams, and norms or means of buckets. The
// arithmetic is the core's.
#ifndef TFCOMPRESS_CUDA_VALUE_CODES_H_
#define TFCOMPRESS_CUDA_VALUE_CODES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/status.h"
#include "core/value/block_int_levels.h"
#include "core/value/double_exponential.h"
#include "core/value/fixed_point.h"
#include "core/value/power_of_two_levels.h"
#include "core/value/qsgd_levels.h"
#include "core/value/reciprocal_log_levels.h"
#include "core/value/sign_means.h"
#include "core/value/trits.h"
#include "cuda/binary_search.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

// Parameters common to all codes of a section.
struct ValueParams {
  ValueSpec spec;            // As far as it is in the section.
  float scale;               // ternary
  int32_t largest_exponent;  // logquant
  ValueRange range;          // uniform
  SignMeans means;           // sign
  LogScale log_scale;        // log
  const float* levels;       // log: magnitudes, descending.
  CurvePart curves[2];       // dexp: one for each sign.
  const uint32_t* codes;     // quantile and ranks: codes computed before, for encoding.
  const float* table;        // Ranks: decoded value of each rank.
  uint32_t first_code;       // quantile: what the code computed before is for bucket 0.
  uint32_t num_ranks;        // Ranks: their number.
  uint64_t codes_begin;      // Position of the codes in the section.
  uint64_t num_bytes;        // Length of the section, if it IsMeasured.
};

// Codes of a fixed number of bits, least significant first: eight codes take as many bytes as a
// code has bits.
class BitPacking {
 public:
  static constexpr int kGroup = 8;

  __device__ BitPacking(unsigned char* codes, int num_bits) : codes_(codes), num_bits_(num_bits) {}

  // Stores the `size` codes of a group, 1 to 8 of at most 32 bits.
  __device__ void Store(uint64_t group, const uint32_t* codes, int size) const {
    unsigned char* out = codes_ + group * static_cast<uint64_t>(num_bits_);
    uint64_t pending = 0;
    int num_pending = 0;
    for (int i = 0; i < size; ++i) {
      pending |= static_cast<uint64_t>(codes[i]) << num_pending;
      num_pending += num_bits_;
      for (; num_pending >= 8; num_pending -= 8, pending >>= 8)
        *out++ = static_cast<unsigned char>(pending);
    }
    if (num_pending > 0) *out = static_cast<unsigned char>(pending);
  }

  // Reads only the bytes that hold the code.
  __device__ uint32_t Load(uint64_t i) const {
    if (num_bits_ == 0) return 0;
    const uint64_t bit = i * static_cast<uint64_t>(num_bits_);
    const unsigned char* from = codes_ + bit / 8;
    const int shift = static_cast<int>(bit % 8);
    uint64_t word = *from;
    for (int have = 8; have < shift + num_bits_; have += 8)
      word |= static_cast<uint64_t>(*++from) << have;
    return static_cast<uint32_t>(word >> shift & ((uint64_t{1} << num_bits_) - 1));
  }

 private:
  unsigned char* codes_;
  int num_bits_;
};

// Five trits in a byte. An invalid byte loads as kNoTrit.
class TritPacking {
 public:
  static constexpr int kGroup = kTritsPerByte;
  static constexpr uint32_t kNoTrit = 3;

  __device__ explicit TritPacking(unsigned char* codes) : codes_(codes) {}

  __device__ void Store(uint64_t group, const uint32_t* trits, int size) const {
    codes_[group] = PackTrits(trits, size);
  }
  __device__ uint32_t Load(uint64_t i) const {
    const uint32_t code = codes_[i / kTritsPerByte];
    return code < kNumTritCodes ? TritOf(code, static_cast<int>(i % kTritsPerByte)) : kNoTrit;
  }

 private:
  unsigned char* codes_;
};

// Each of the codecs is constructed from the parameters of a section, the begin of the section, and
// the seed of the frame, which only encoding uses. Value() may return anything for hostile codes.

class QsgdCodes : public BitPacking {
 public:
  __device__ QsgdCodes(const ValueParams& params, unsigned char* section, uint64_t seed)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        levels_(params.spec.num_bits),
        bucket_size_(params.spec.bucket_size),
        norms_(section + ValueSpec::HeaderBytes(ValueKind::kQsgd)),
        noise_(seed) {}

  __device__ uint32_t Code(float value, uint64_t i) {
    Enter(i);
    return levels_.Code(value, steps_per_unit_, noise_.At(i));
  }
  __device__ float Value(uint32_t code, uint64_t i) {
    Enter(i);
    return levels_.Value(code, unit_);
  }

 private:
  // Divides once for the values of a bucket that a thread visits one after the other.
  __device__ void Enter(uint64_t i) {
    if (i >= begin_ && i < end_) return;
    const uint32_t bucket = static_cast<uint32_t>(i) / bucket_size_;
    begin_ = uint64_t{bucket} * bucket_size_;
    end_ = begin_ + bucket_size_;
    const auto norm = LoadUnaligned<float>(norms_ + sizeof(float) * bucket);
    steps_per_unit_ = levels_.StepsPerUnit(norm);
    unit_ = levels_.Unit(norm);
  }

  QsgdLevels levels_;
  uint32_t bucket_size_;
  const unsigned char* norms_;
  RoundingNoise noise_;
  // The bucket of the last value.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  double steps_per_unit_ = 0;
  double unit_ = 0;
};

class BlockIntCodes : public BitPacking {
 public:
  __device__ BlockIntCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        levels_(params.spec.num_bits, params.spec.spacing),
        block_shift_(BitsFor(params.spec.bucket_size)),
        scales_(section + ValueSpec::HeaderBytes(ValueKind::kBlockInt)) {}

  __device__ uint32_t Code(float value, uint64_t i) const {
    return levels_.Code(value, ScaleOf(i));
  }
  __device__ float Value(uint32_t code, uint64_t i) const {
    return levels_.Value(code, ScaleOf(i));
  }

 private:
  __device__ uint16_t ScaleOf(uint64_t i) const {
    return LoadUnaligned<uint16_t>(scales_ + sizeof(uint16_t) * (i >> block_shift_));
  }

  BlockIntLevels levels_;
  int block_shift_;  // Blocks are of powers of two.
  const unsigned char* scales_;
};

class UniformCodes : public BitPacking {
 public:
  __device__ UniformCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        fixed_point_(params.range, params.spec.num_bits) {}

  __device__ uint32_t Code(float value, uint64_t) const {
    return static_cast<uint32_t>(fixed_point_.CodeOf(value));
  }
  __device__ float Value(uint32_t code, uint64_t) const { return fixed_point_.ValueOf(code); }

 private:
  FixedPoint fixed_point_;
};

class LogquantCodes : public BitPacking {
 public:
  __device__ LogquantCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        levels_{params.spec.num_bits, params.largest_exponent} {}

  __device__ uint32_t Code(float value, uint64_t) const { return levels_.Code(value); }
  __device__ float Value(uint32_t code, uint64_t) const { return levels_.Value(code); }

 private:
  PowerLevels levels_;
};

class SignCodes : public BitPacking {
 public:
  __device__ SignCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, 1), means_(params.means) {}

  __device__ uint32_t Code(float value, uint64_t) const { return IsNegative(value); }
  // A condition instead of an index keeps the means in registers.
  __device__ float Value(uint32_t code, uint64_t) const {
    return code == 0 ? means_.of_sign[0] : means_.of_sign[1];
  }

 private:
  SignMeans means_;
};

class QuantileCodes : public BitPacking {
 public:
  __device__ QuantileCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        codes_(params.codes),
        first_code_(params.first_code),
        num_buckets_(params.spec.num_buckets),
        means_(section + ValueSpec::HeaderBytes(ValueKind::kQuantile)) {}

  __device__ uint32_t Code(float, uint64_t i) const { return codes_[i] - first_code_; }
  __device__ float Value(uint32_t code, uint64_t) const {
    return code < num_buckets_ ? LoadUnaligned<float>(means_ + sizeof(float) * code)
                               : FloatFromBits(kFloatInfinityBits);
  }

 private:
  const uint32_t* codes_;
  uint32_t first_code_;
  uint32_t num_buckets_;
  const unsigned char* means_;
};

class LogCodes : public BitPacking {
 public:
  __device__ LogCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        levels_(params.levels),
        num_levels_(params.log_scale.num_levels),
        num_codes_(params.log_scale.NumCodes()) {}

  // The largest level that is not above the magnitude.
  __device__ uint32_t Code(float value, uint64_t) const {
    const uint32_t magnitude = FloatBits(value) & kFloatMagnitudeBits;
    const auto level = static_cast<uint32_t>(
        FirstAfter(0, num_levels_, [&](uint64_t i) { return FloatBits(levels_[i]) <= magnitude; }));
    return level == num_levels_ ? 0 : LogScale::Code(level, value);
  }
  __device__ float Value(uint32_t code, uint64_t) const {
    if (code >= num_codes_) return FloatFromBits(kFloatInfinityBits);
    return code == 0 ? 0 : LogScale::Value(code, levels_[(code - 1) / 2]);
  }

 private:
  const float* levels_;
  uint32_t num_levels_;
  uint32_t num_codes_;
};

// Ranks in the sorted values; the table holds the fitted curve evaluated at each rank.
class RankCodes : public BitPacking {
 public:
  __device__ RankCodes(const ValueParams& params, unsigned char* section, uint64_t)
      : BitPacking(section + params.codes_begin, params.spec.num_bits),
        ranks_(params.codes),
        table_(params.table),
        num_ranks_(params.num_ranks) {}

  __device__ uint32_t Code(float, uint64_t i) const { return ranks_[i]; }
  __device__ float Value(uint32_t rank, uint64_t) const {
    return rank < num_ranks_ ? table_[rank] : FloatFromBits(kFloatInfinityBits);
  }

 private:
  const uint32_t* ranks_;
  const float* table_;
  uint32_t num_ranks_;
};

class TernaryCodes : public TritPacking {
 public:
  __device__ TernaryCodes(const ValueParams& params, unsigned char* section, uint64_t seed)
      : TritPacking(section + params.codes_begin),
        scale_{params.scale},
        steps_per_unit_(scale_.StepsPerUnit()),
        noise_(seed) {}

  __device__ uint32_t Code(float value, uint64_t i) const {
    return TernaryScale::Trit(value, steps_per_unit_, noise_.At(i));
  }
  __device__ float Value(uint32_t trit, uint64_t) const {
    return trit == kNoTrit ? FloatFromBits(kFloatInfinityBits) : scale_.Value(trit);
  }

 private:
  TernaryScale scale_;
  double steps_per_unit_;
  RoundingNoise noise_;
};

// Calls body(Codes*) with the code type of the kind.
template <typename Body>
Status WithCodes(ValueKind kind, const Body& body) {
  switch (kind) {
    case ValueKind::kBlockInt:
      return body(static_cast<BlockIntCodes*>(nullptr));
    case ValueKind::kQsgd:
      return body(static_cast<QsgdCodes*>(nullptr));
    case ValueKind::kUniform:
      return body(static_cast<UniformCodes*>(nullptr));
    case ValueKind::kLogquant:
      return body(static_cast<LogquantCodes*>(nullptr));
    case ValueKind::kTernary:
      return body(static_cast<TernaryCodes*>(nullptr));
    case ValueKind::kSign:
      return body(static_cast<SignCodes*>(nullptr));
    case ValueKind::kQuantile:
      return body(static_cast<QuantileCodes*>(nullptr));
    case ValueKind::kLog:
      return body(static_cast<LogCodes*>(nullptr));
    case ValueKind::kDexp:
      return body(static_cast<RankCodes*>(nullptr));
    default:
      return Internal("these values have no codes");
  }
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUE_CODES_H_
