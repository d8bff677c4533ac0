// sign: one bit per value, and the mean of each sign (1-bit SGD with a threshold of 0; FastSGD 5.1,
// DeepReduce's reference [61]).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/packed_codes.h"
#include "core/value/sign_means.h"

namespace tfcompress {
namespace {

SignMeans MeansOf(Span<const float> values, Executor* executor) {
  const auto k = static_cast<int64_t>(values.size());
  const auto sum_of = [&](uint32_t sign_bit) {
    return SumOverBlocks(k, executor,
                         [&](int64_t i) { return SignMeans::Term(values[i], sign_bit); });
  };
  const auto num_negative = static_cast<uint64_t>(SumOverBlocks(
      k, executor, [&](int64_t i) { return static_cast<double>(int32_t{IsNegative(values[i])}); }));
  return {{SignMeans::Mean(sum_of(0), values.size() - num_negative),
           SignMeans::Mean(sum_of(1), num_negative)}};
}

class Sign : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    ByteWriter writer(out);
    writer.Write(MeansOf(values, context.executor));
    PackSigns(values, context.executor, &writer);
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    ByteReader reader(section);
    SignMeans means;
    TFC_RETURN_IF_ERROR(reader.Read("means", &means));
    if (!means.AreFinite()) return DataLoss("sign: a mean is not finite");
    if (!means.HaveTheirSigns()) {
      return DataLoss("sign: means ", means.of_sign[0], " and ", means.of_sign[1],
                      " of the wrong sign");
    }
    return OpenTable(k, /*num_bits=*/1, {means.of_sign[0], means.of_sign[1]}, &reader, decoder)
        .WithContext("sign");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return sizeof(SignMeans) + PackedBytes(k, 1);
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return sizeof(SignMeans) + PackedBytes(k, 1);
  }

  double MaxError(Span<const float> values) const override {
    const SignMeans means = MeansOf(values, SerialExecutor());
    double error = 0;
    for (float value : values) {
      error = std::max(error, std::fabs(double{value} - means.of_sign[IsNegative(value)]));
    }
    return error;
  }
};

}  // namespace

Definition<ValueCodec> SignValue() {
  return {"one bit a value and the mean of each sign (1-bit SGD; FastSGD 5.1)",
          {},
          Make<Sign>,
          "the range of the values of one sign; never the sign",
          "8 + k / 8"};
}

}  // namespace tfcompress
