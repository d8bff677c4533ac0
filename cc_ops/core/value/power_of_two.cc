// logquant: the sign and the nearest power of two, from the largest one of the tensor down
// (LogQuant, the base-2 competitor of FastSGD 4.1).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/packed_codes.h"
#include "core/value/power_of_two_levels.h"

namespace tfcompress {
namespace {

// What each code stands for.
std::vector<float> TableOf(const PowerLevels& levels) {
  std::vector<float> table;
  for (uint32_t code = 0; code < 1u << levels.num_bits; ++code) table.push_back(levels.Value(code));
  return table;
}

void EncodeChunk(PowerLevels levels, Span<const float> values, uint32_t* codes) {
  for (size_t i = 0; i < values.size(); ++i) codes[i] = levels.Code(values[i]);
}

class LogQuant : public ValueCodec {
 public:
  explicit LogQuant(int num_bits) : num_bits_(num_bits) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const PowerLevels levels = LevelsFor(values, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(num_bits_));
    writer.Write(static_cast<uint8_t>(levels.largest_exponent));
    PackCodes(values.size(), num_bits_, context.executor,
              writer.Extend(PackedBytes(values.size(), num_bits_)),
              [&](int64_t begin, int64_t end, uint32_t* codes) {
                EncodeChunk(levels, values.subspan(begin, end - begin), codes);
              });
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
  // The nearest power of two is off by a factor of the square root of two at most.
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
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
    return {num_bits_, PowerLevels::NearestExponent(LargestMagnitude(values, executor))};
  }

  int num_bits_;
};

}  // namespace

Definition<ValueCodec> LogquantValue() {
  return {"sign and nearest power of two (LogQuant; FastSGD 4.1)",
          {{"bits", ParamKind::kInt, "8", "bits of a value, its sign included",
            PowerLevels::kMinBits, PowerLevels::kMaxBits}},
          [](const Params& params) -> std::unique_ptr<const ValueCodec> {
            return std::make_unique<LogQuant>(static_cast<int>(params.Int("bits")));
          },
          "0.42 of the value; all of it below the lowest level",
          "2 + bits k / 8"};
}

}  // namespace tfcompress
