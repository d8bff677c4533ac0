// ternary: -s, 0 or s, where s is the largest magnitude of the tensor; a value is sent as s with
// probability |value| / s, so that its expectation is the value (TernGrad; SKCompress 7.1).
// Clipping gives up the expectation of outliers for a smaller s.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/code_chunks.h"
#include "core/value/rounding_noise.h"

namespace tfcompress {
namespace {

constexpr int64_t kTritsPerByte = 5;
constexpr uint32_t kNumCodes = 243;  // 3^5
constexpr uint32_t kPowersOf3[kTritsPerByte] = {1, 3, 9, 27, 81};
constexpr double kMaxClip = 1000;

// Whole bytes of trits, and an even number as RoundingNoise wants it.
constexpr int64_t kBlockTrits = kTritsPerByte << 13;
constexpr int64_t kChunkTrits = kTritsPerByte << 10;

uint64_t NumCodes(uint64_t k) { return (k + kTritsPerByte - 1) / kTritsPerByte; }

class Ternary : public ValueCodec {
 public:
  explicit Ternary(double clip) : clip_(clip) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const float scale = ScaleOf(values, context.executor);
    const RoundingNoise noise(context.seed);
    ByteWriter writer(out);
    writer.Write(scale);
    unsigned char* codes = writer.Extend(NumCodes(values.size()));
    auto encode_block = [&](int64_t, int64_t begin, int64_t end) {
      uint32_t trits[kChunkTrits];
      for (; begin < end; begin += kChunkTrits) {
        const int64_t size = std::min(end - begin, kChunkTrits);
        noise.Fill(begin, begin + size, trits);
        RoundChunk(values.subspan(begin, size), scale, trits);
        PackTrits(trits, size, codes + begin / kTritsPerByte);
      }
    };
    ForEachBlock(context.executor, values.size(), encode_block, kBlockTrits);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    float scale = 0;
    ByteSpan codes;
    TFC_RETURN_IF_ERROR(reader.Read("scale", &scale));
    if (FloatBits(scale) >= kFloatInfinityBits) return DataLoss("ternary: the scale is ", scale);
    TFC_RETURN_IF_ERROR(reader.ReadSpan("trits", NumCodes(values.size()), &codes));
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
      if (largest >= kNumCodes) in_range = false;
    };
    ForEachBlock(context.executor, values.size(), decode_block, kBlockTrits);
    if (!in_range) return DataLoss("ternary: five trits are not below ", kNumCodes);
    return OkStatus();
  }

  uint64_t MaxEncodedBytes(uint32_t k) const override { return sizeof(float) + NumCodes(k); }

  // The scale where 0 is decoded, what clipping takes off where the scale is.
  double MaxError(Span<const float> values) const override {
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::fabs(double{value}));
    const double scale = ScaleOf(values, SerialExecutor());
    return std::max(scale, largest - scale);
  }

 private:
  using FiveValues = std::array<float, kTritsPerByte>;

  // The largest magnitude, or `clip` standard deviations where that is less. The deviation is taken
  // from zero, where TernGrad takes the mean of gradients to be: it is never 0 unless all are.
  float ScaleOf(Span<const float> values, Executor* executor) const {
    const float largest = LargestMagnitude(values, executor);
    if (clip_ == 0 || largest == 0) return largest;
    const double sum = SumOverBlocks(values.size(), executor, [&](int64_t i) {
      const double value = NormalOrZero(values[i]);
      return value * value;
    });
    const double limit = clip_ * std::sqrt(sum / static_cast<double>(values.size()));
    return limit < largest ? std::max(RoundToNormal(limit), kLeastNormal) : largest;
  }

  // Replaces the noise in `trits`: 0 for 0, 1 for s, 2 for -s.
  static void RoundChunk(Span<const float> values, float scale, uint32_t* trits) {
    constexpr double kCertain = 1 << RoundingNoise::kBits;
    const double units_per_scale = scale == 0 ? 0 : kCertain / scale;
    for (size_t i = 0; i < values.size(); ++i) {
      const double chance = std::fabs(NormalOrZero(values[i])) * units_per_scale;
      const auto threshold = static_cast<int32_t>(chance < kCertain ? chance : kCertain);
      const uint32_t sent = static_cast<int32_t>(trits[i]) < threshold;
      trits[i] = sent << (FloatBits(values[i]) >> 31);
    }
  }

  // The first trit of a byte counts most often: it is the digit of 1.
  static void PackTrits(const uint32_t* trits, int64_t size, unsigned char* codes) {
    int64_t i = 0;
    for (; i + kTritsPerByte <= size; i += kTritsPerByte) {
      uint32_t code = 0;
      for (int j = 0; j < kTritsPerByte; ++j) code += trits[i + j] * kPowersOf3[j];
      *codes++ = static_cast<unsigned char>(code);
    }
    for (int64_t j = 0; i + j < size; ++j) *codes += trits[i + j] * kPowersOf3[j];
  }

  // The values of every byte; those past kNumCodes are zeros and never used.
  static std::vector<FiveValues> TableOf(float scale) {
    const float magnitude = RoundToNormal(NormalOrZero(scale));
    const float values[3] = {0, magnitude, -magnitude};
    std::vector<FiveValues> table(256);
    for (uint32_t code = 0; code < kNumCodes; ++code) {
      for (int j = 0; j < kTritsPerByte; ++j) table[code][j] = values[code / kPowersOf3[j] % 3];
    }
    return table;
  }

  static constexpr float kLeastNormal = 0x1p-126f;

  double clip_;
};

}  // namespace

Definition<ValueCodec> TernaryValue() {
  return {"stochastic ternary values, five a byte (TernGrad; SKCompress 7.1)",
          {{"clip", ParamKind::kFloat, "0",
            "standard deviations that magnitudes are clipped to, 2.5 in the paper; 0 for none", 0,
            kMaxClip}},
          [](const Params& params) -> std::unique_ptr<const ValueCodec> {
            return std::make_unique<Ternary>(params.Float("clip"));
          },
          "the largest magnitude; right on average without clip",
          "4 + ceil(k / 5)"};
}

}  // namespace tfcompress
