// logquant: the sign and the nearest power of two, from the largest one of the tensor down
// (LogQuant, the base-2 competitor of FastSGD 4.1).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/code_chunks.h"

namespace tfcompress {
namespace {

constexpr int kMinBits = 2;
constexpr int kMaxBits = 8;
constexpr int kMantissaBits = 23;
constexpr int32_t kLargestExponent = 254;  // Biased, as everywhere here: 2^(e - 127).

// The exponent of the power of two that is nearest on a logarithmic scale; 0 for 0 and subnormal
// numbers. Adding the rest to the next power carries into the exponent exactly for mantissas above
// that of the square root of two, which is no float.
int32_t NearestExponent(float value) {
  constexpr uint32_t kFirstMantissaAboveSqrt2 = 0x3504F4u;
  const uint32_t bits = FloatBits(value) & kFloatMagnitudeBits;
  const uint32_t carried =
      (bits & NormalMask(bits)) + (kLeastNormalBits - kFirstMantissaAboveSqrt2);
  return std::min(static_cast<int32_t>(carried >> kMantissaBits), kLargestExponent);
}

// Level 0 is zero, level l > 0 the magnitude of exponent `below + l`.
struct Levels {
  int num_bits;
  int32_t largest_exponent;  // Of the level that is highest.

  int32_t HighestLevel() const { return (1 << (num_bits - 1)) - 1; }
  int32_t Below() const { return largest_exponent - HighestLevel(); }

  uint32_t LevelOf(float value) const {
    const int32_t exponent = NearestExponent(value);
    return static_cast<uint32_t>(exponent == 0 ? 0 : std::max(exponent - Below(), 0));
  }
  float Magnitude(uint32_t level) const {
    const int32_t exponent = Below() + static_cast<int32_t>(level);
    if (level == 0 || exponent <= 0) return 0;
    return FloatFromBits(static_cast<uint32_t>(exponent) << kMantissaBits);
  }
  // By code: the sign above the level.
  std::vector<float> Table() const {
    std::vector<float> table;
    const auto num_levels = static_cast<uint32_t>(HighestLevel()) + 1;
    for (uint32_t level = 0; level < num_levels; ++level) table.push_back(Magnitude(level));
    for (uint32_t level = 0; level < num_levels; ++level) table.push_back(0 - Magnitude(level));
    return table;
  }
};

class LogQuant : public ValueCodec {
 public:
  explicit LogQuant(int num_bits) : num_bits_(num_bits) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const Levels levels = LevelsFor(values, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(num_bits_));
    writer.Write(static_cast<uint8_t>(levels.largest_exponent));
    const int sign_shift = 32 - num_bits_;
    const uint32_t sign_mask = 1u << (num_bits_ - 1);
    PackChunks(values.size(), num_bits_, context.executor,
               writer.Extend(PackedBytes(values.size(), num_bits_)),
               [&](int64_t begin, int64_t end, uint32_t* codes) {
                 for (int64_t i = begin; i < end; ++i) {
                   const uint32_t sign = (FloatBits(values[i]) >> sign_shift) & sign_mask;
                   codes[i - begin] = levels.LevelOf(values[i]) | sign;
                 }
               });
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    uint8_t largest_exponent = 0;
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("largest exponent", &largest_exponent));
    if (num_bits < kMinBits || num_bits > kMaxBits || largest_exponent > kLargestExponent) {
      return DataLoss("logquant: codes of ", int{num_bits}, " bits, exponents up to ",
                      int{largest_exponent});
    }
    TFC_RETURN_IF_ERROR(reader.ReadSpan("codes", PackedBytes(values.size(), num_bits), &packed));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("logquant"));
    const std::vector<float> table = Levels{num_bits, largest_exponent}.Table();
    return LookUpChunks(packed, num_bits, table, context.executor, values);
  }

  uint64_t MaxEncodedBytes(uint32_t k) const override { return 2 + PackedBytes(k, num_bits_); }

  double MaxError(Span<const float> values) const override {
    const Levels levels = LevelsFor(values, SerialExecutor());
    double error = 0;
    for (float value : values) {
      const double decoded = levels.Magnitude(levels.LevelOf(value));
      error = std::max(error, std::fabs(std::fabs(double{value}) - decoded));
    }
    return error;
  }

 private:
  Levels LevelsFor(Span<const float> values, Executor* executor) const {
    return {num_bits_, NearestExponent(LargestMagnitude(values, executor))};
  }

  int num_bits_;
};

}  // namespace

Definition<ValueCodec> LogquantValue() {
  return {
      "sign and nearest power of two (LogQuant; FastSGD 4.1)",
      {{"bits", ParamKind::kInt, "8", "bits of a value, its sign included", kMinBits, kMaxBits}},
      [](const Params& params) -> std::unique_ptr<const ValueCodec> {
        return std::make_unique<LogQuant>(static_cast<int>(params.Int("bits")));
      },
      "0.42 of the value; all of it below the lowest level",
      "2 + bits k / 8"};
}

}  // namespace tfcompress
