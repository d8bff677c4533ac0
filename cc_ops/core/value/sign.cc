// sign: one bit a value, and the mean of each sign (1-bit SGD with a threshold of 0; FastSGD 5.1,
// DeepReduce's reference [61]).
#include <algorithm>
#include <array>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/code_chunks.h"

namespace tfcompress {
namespace {

// The mean of the values that are not negative (-0 counts as 0), then of those that are: what the
// bits 0 and 1 stand for.
using Means = std::array<float, 2>;

Means MeansOf(Span<const float> values, Executor* executor) {
  const auto k = static_cast<int64_t>(values.size());
  // Masks instead of branches, which signs at random would mispredict half of the time.
  const auto sum_where = [&](uint32_t sign_bit) {
    return SumOverBlocks(k, executor, [&](int64_t i) {
      const uint32_t bits = FloatBits(values[i]);
      const uint32_t others = 0 - ((bits >> 31) ^ sign_bit);
      return NormalOrZero(FloatFromBits(bits & ~others));
    });
  };
  const auto num_negative = SumOverBlocks(
      k, executor, [&](int64_t i) { return static_cast<double>(int32_t{IsNegative(values[i])}); });
  const auto mean = [](double sum, double count) {
    return count == 0 ? 0.0f : RoundToNormal(sum / count);
  };
  return {mean(sum_where(0), static_cast<double>(k) - num_negative),
          mean(sum_where(1), num_negative)};
}

class Sign : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    ByteWriter writer(out);
    for (float mean : MeansOf(values, context.executor)) writer.Write(mean);
    PackChunks(values.size(), /*num_bits=*/1, context.executor,
               writer.Extend(PackedBytes(values.size(), 1)),
               [&](int64_t begin, int64_t end, uint32_t* codes) {
                 for (int64_t i = begin; i < end; ++i) codes[i - begin] = IsNegative(values[i]);
               });
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    std::vector<float> means;
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(reader.ReadArray("means", 2, &means));
    for (float mean : means) {
      if (!IsFiniteBits(FloatBits(mean))) return DataLoss("sign: a mean is not finite");
    }
    if (IsNegative(means[0]) || OrderedKey(means[1]) > kZeroKey) {
      return DataLoss("sign: means ", means[0], " and ", means[1], " of the wrong sign");
    }
    TFC_RETURN_IF_ERROR(reader.ReadSpan("signs", PackedBytes(values.size(), 1), &packed));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("sign"));
    return LookUpChunks(packed, /*num_bits=*/1, means, context.executor, values);
  }

  uint64_t MaxEncodedBytes(uint32_t k) const override { return sizeof(Means) + PackedBytes(k, 1); }

  double MaxError(Span<const float> values) const override {
    const Means means = MeansOf(values, SerialExecutor());
    double error = 0;
    for (float value : values) {
      error = std::max(error, std::fabs(double{value} - means[IsNegative(value)]));
    }
    return error;
  }
};

}  // namespace

Definition<ValueCodec> SignValue() {
  return {
      "one bit a value and the mean of each sign (1-bit SGD; FastSGD 5.1)",
      {},
      [](const Params&) -> std::unique_ptr<const ValueCodec> { return std::make_unique<Sign>(); },
      "the range of the values of one sign; never the sign",
      "8 + k / 8"};
}

}  // namespace tfcompress
