// ternary: -s, 0 or s, where s is the largest magnitude of the tensor; a value is sent as s with
// probability |value| / s, so that its expectation is the value (TernGrad; SKCompress 7.1).
// Clipping gives up the expectation of outliers for a smaller s.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "core/byte_io.h"
#include "core/finite.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/trits.h"

namespace tfcompress {
namespace {

constexpr double kMaxClip = 1000;

// Whole bytes of trits.
constexpr int64_t kBlockTrits = int64_t{kTritsPerByte} << 13;  // Of decoding.
constexpr int64_t kChunkTrits = int64_t{kTritsPerByte} << 10;  // Even, as RoundingNoise requires.

class Ternary : public ValueCodec {
 public:
  explicit Ternary(const Params& params) : clip_(params.Float("clip")) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const TernaryScale scale = ScaleOf(values, context.executor);
    const RoundingNoise noise(context.seed);
    ByteWriter writer(out);
    writer.Write(scale.scale);
    unsigned char* codes = writer.Extend(NumTritBytes(values.size()));
    ForEachChunk(context.executor, values.size(), kChunkTrits, [&](int64_t begin, int64_t end) {
      uint32_t trits[kChunkTrits];
      noise.Fill(begin, end, trits);
      RoundChunk(values.subspan(begin, end - begin), scale.StepsPerUnit(), trits);
      PackChunk(trits, end - begin, codes + begin / kTritsPerByte);
    });
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    float scale = 0;
    ByteSpan codes;
    TFC_RETURN_IF_ERROR(reader.Read("scale", &scale));
    if (FloatBits(scale) >= kFloatInfinityBits) return DataLoss("ternary: the scale is ", scale);
    TFC_RETURN_IF_ERROR(reader.ReadSpan("trits", NumTritBytes(values.size()), &codes));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("ternary"));
    const std::vector<FiveValues> table = TableOf(scale);
    std::atomic<bool> in_range{true};
    auto decode_block = [&](int64_t, int64_t begin, int64_t end) {
      uint32_t largest = 0;
      int64_t i = begin;
      for (; i + kTritsPerByte <= end; i += kTritsPerByte) {
        const unsigned char code = codes[i / kTritsPerByte];
        largest = std::max<uint32_t>(largest, code);
        std::copy(table[code].begin(), table[code].end(), &values[i]);
      }
      if (i < end) {
        const unsigned char code = codes[i / kTritsPerByte];
        largest = std::max<uint32_t>(largest, code);
        std::copy(table[code].begin(), table[code].begin() + (end - i), &values[i]);
      }
      if (largest >= kNumTritCodes) in_range = false;
    };
    ForEachBlock(context.executor, values.size(), decode_block, kBlockTrits);
    if (!in_range) return DataLoss("ternary: five trits are not below ", kNumTritCodes);
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override { return sizeof(float) + NumTritBytes(k); }
  uint64_t MaxEncodedBytes(uint32_t k) const override { return sizeof(float) + NumTritBytes(k); }

  // The scale for values that decode to 0; the clipped difference for those that decode to the
  // scale.
  double MaxError(Span<const float> values) const override {
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::fabs(double{value}));
    const double scale = ScaleOf(values, SerialExecutor()).scale;
    return std::max(scale, largest - scale);
  }

 private:
  using FiveValues = std::array<float, kTritsPerByte>;

  TernaryScale ScaleOf(Span<const float> values, Executor* executor) const {
    const float largest = FlushSubnormal(FloatFromBits(MaxMagnitude(values, executor)));
    if (clip_ == 0 || largest == 0) return {largest};
    const double sum = SumOverBlocks(values.size(), executor, [&](int64_t i) {
      const double value = NormalOrZero(values[i]);
      return value * value;
    });
    return TernaryScale::Clipped(largest, clip_, sum, static_cast<uint32_t>(values.size()));
  }

  // Replaces the noise in `trits`.
  static void RoundChunk(Span<const float> values, double steps_per_unit, uint32_t* trits) {
    for (size_t i = 0; i < values.size(); ++i)
      trits[i] = TernaryScale::Trit(values[i], steps_per_unit, trits[i]);
  }

  static void PackChunk(const uint32_t* trits, int64_t size, unsigned char* codes) {
    int64_t i = 0;
    for (; i + kTritsPerByte <= size; i += kTritsPerByte)
      *codes++ = PackTrits(trits + i, kTritsPerByte);
    if (i < size) *codes = PackTrits(trits + i, static_cast<int>(size - i));
  }

  // Returns the five values of every byte; those past kNumTritCodes are zeros and never used.
  static std::vector<FiveValues> TableOf(float scale) {
    const TernaryScale flushed = {FlushSubnormal(scale)};
    std::vector<FiveValues> table(256);
    for (uint32_t code = 0; code < kNumTritCodes; ++code) {
      for (int j = 0; j < kTritsPerByte; ++j) table[code][j] = flushed.Value(TritOf(code, j));
    }
    return table;
  }

  double clip_;
};

}  // namespace

Definition<ValueCodec> TernaryValue() {
  return {"stochastic ternary values, five a byte (TernGrad; SKCompress 7.1)",
          {{"clip", ParamKind::kFloat, "0",
            "standard deviations that magnitudes are clipped to, 2.5 in the paper; 0 for none", 0,
            kMaxClip}},
          Make<Ternary>,
          "the largest magnitude; right on average without clip",
          "4 + ceil(k / 5)"};
}

}  // namespace tfcompress
