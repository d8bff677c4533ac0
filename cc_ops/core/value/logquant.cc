// logquant: the sign and the nearest power of two, from the largest one of the tensor down
// (LogQuant, the base-2 competitor of FastSGD 4.1).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/code_chunks.h"
#include "core/value/power_levels.h"

namespace tfcompress {
namespace {

// Returns the decoded value of each code.
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
    PackChunks(values.size(), num_bits_, context.executor,
               writer.Extend(PackedBytes(values.size(), num_bits_)),
               [&](int64_t begin, int64_t end, uint32_t* codes) {
                 EncodeChunk(levels, values.subspan(begin, end - begin), codes);
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
    const PowerLevels levels{num_bits, largest_exponent};
    if (!levels.IsValid()) {
      return DataLoss("logquant: codes of ", int{num_bits}, " bits, exponents up to ",
                      int{largest_exponent});
    }
    TFC_RETURN_IF_ERROR(reader.ReadSpan("codes", PackedBytes(values.size(), num_bits), &packed));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("logquant"));
    return LookUpChunks(packed, num_bits, TableOf(levels), context.executor, values);
  }

  uint64_t MaxEncodedBytes(uint32_t k) const override { return 2 + PackedBytes(k, num_bits_); }

  double MaxError(Span<const float> values) const override {
    const PowerLevels levels = LevelsFor(values, SerialExecutor());
    double error = 0;
    for (float value : values)
      error = std::max(error, std::fabs(double{value} - levels.Value(levels.Code(value))));
    return error;
  }

 private:
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
