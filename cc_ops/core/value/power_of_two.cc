// logquant: the sign and a power of two, from the largest one of the tensor down: the nearest one
// (LogQuant, the base-2 competitor of FastSGD 4.1), or one of the two around the value by chance,
// without a bias (natural compression, Horvath et al. 2019).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/finite.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/packed_codes.h"
#include "core/value/power_of_two_levels.h"
#include "core/value/rounding_noise.h"

namespace tfcompress {
namespace {

// What each code stands for.
std::vector<float> TableOf(const PowerLevels& levels) {
  std::vector<float> table;
  for (uint32_t code = 0; code < 1u << levels.num_bits; ++code) table.push_back(levels.Value(code));
  return table;
}

enum class Rounding { kNearest, kRandom };

class LogQuant : public ValueCodec {
 public:
  explicit LogQuant(const Params& params)
      : num_bits_(static_cast<int>(params.Int("bits"))),
        rounding_(static_cast<Rounding>(params.Choice("rounding"))) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const PowerLevels levels = LevelsFor(values, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(num_bits_));
    writer.Write(static_cast<uint8_t>(levels.largest_exponent));
    const RoundingNoise noise(context.seed);
    const auto make_codes = [&](int64_t begin, int64_t end, uint32_t* codes) {
      const PowerLevels local = levels;  // Which codes cannot overwrite.
      const float* const chunk = values.data() + begin;
      if (rounding_ == Rounding::kNearest) {
        for (int64_t i = 0; i < end - begin; ++i) codes[i] = local.Code(chunk[i]);
        return;
      }
      noise.Fill(begin, end, codes);
      for (int64_t i = 0; i < end - begin; ++i) codes[i] = local.RandomCode(chunk[i], codes[i]);
    };
    PackCodes(values.size(), num_bits_, context.executor,
              writer.Extend(PackedBytes(values.size(), num_bits_)), make_codes);
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    uint8_t largest_exponent = 0;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("largest exponent", &largest_exponent));
    const PowerLevels levels{num_bits, largest_exponent};
    if (!levels.IsValid()) {
      return DataLoss("logquant: codes of ", int{num_bits}, " bits, exponents up to ",
                      int{largest_exponent});
    }
    return OpenTable(k, num_bits, TableOf(levels), &reader, decoder).WithContext("logquant");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return 2 + PackedBytes(k, PowerLevels::kMinBits);
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override { return 2 + PackedBytes(k, num_bits_); }

  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  // The nearest power of two is off by a factor of the square root of two at most, the next one by
  // no more than the value, or from below the lowest level by that.
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    if (rounding_ == Rounding::kRandom) {
      const double lowest = LevelsFor(values, SerialExecutor()).Value(1);
      for (size_t i = 0; i < values.size(); ++i)
        errors[i] = values[i] == 0 ? 0 : std::max(std::fabs(double{values[i]}), lowest);
      return;
    }
    constexpr double kNearest = 0.41421357;  // Above sqrt(2) - 1.
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::fabs(double{value}));
    const double zero_level = ExponentOf(largest) - ((1 << (num_bits_ - 1)) - 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const double magnitude = std::fabs(double{values[i]});
      const double exponent = ExponentOf(magnitude);
      const bool is_dropped = exponent == -127 || exponent <= zero_level;
      errors[i] =
          is_dropped ? magnitude : std::max(kNearest * magnitude, magnitude - kLargestPower);
    }
  }

 private:
  static constexpr double kLargestPower = 0x1p127;

  // Of the nearest power of two of a normal magnitude; -127 for all others.
  static double ExponentOf(double magnitude) {
    if (magnitude < 0x1p-126) return -127;
    return std::round(std::log2(std::min(magnitude, kLargestPower)));
  }

  PowerLevels LevelsFor(Span<const float> values, Executor* executor) const {
    const uint32_t carry =
        rounding_ == Rounding::kNearest ? PowerLevels::kNearest : PowerLevels::kUp;
    return {num_bits_, PowerLevels::Exponent(FloatFromBits(MaxMagnitude(values, executor)), carry)};
  }

  int num_bits_;
  Rounding rounding_;
};

}  // namespace

Definition<ValueCodec> LogquantValue() {
  return {"sign and power of two (LogQuant; FastSGD 4.1)",
          {{"bits", ParamKind::kInt, "8", "bits of a value, its sign included",
            PowerLevels::kMinBits, PowerLevels::kMaxBits},
           ChoiceParam("rounding", "nearest",
                       "whether the nearest power, or one around the value by chance (natural "
                       "compression)",
                       {"nearest", "random"})},
          Make<LogQuant>,
          "0.42 of the value, all of it below the lowest level; by chance the value, or that level",
          "2 + bits k / 8"};
}

}  // namespace tfcompress
