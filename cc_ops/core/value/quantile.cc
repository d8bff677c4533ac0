// quantile: the bucket of each value, and the mean of each bucket (quantile-bucket quantification,
// SketchML 3.2).
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/value/packed_codes.h"

namespace tfcompress {
namespace {

class Quantile : public ValueCodec {
 public:
  explicit Quantile(const Params& params)
      : max_buckets_(static_cast<uint32_t>(params.Int("buckets"))) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    ByteWriter writer(out);
    if (values.empty()) {
      writer.Write(uint32_t{0});
      return OkStatus();
    }
    const BucketQuantizer quantizer(values, max_buckets_, context.executor);
    const auto num_buckets = static_cast<uint32_t>(quantizer.num_buckets());
    const int num_bits = BitsFor(num_buckets);
    writer.Write(num_buckets);
    const size_t num_mean_bytes = num_buckets * sizeof(float);
    unsigned char* const bytes =
        writer.Extend(num_mean_bytes + PackedBytes(values.size(), num_bits));
    const std::vector<float> means = quantizer.Quantize(
        values, context.executor, [&](int64_t begin, int64_t end, const uint32_t* codes) {
          PackChunk(codes, begin, end, num_bits, bytes + num_mean_bytes);
        });
    std::memcpy(bytes, means.data(), num_mean_bytes);
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    ByteReader reader(section);
    std::vector<float> means;
    TFC_RETURN_IF_ERROR(ReadMeans(k, &reader, &means));
    const int num_bits = BitsFor(means.size());
    return OpenTable(k, num_bits, std::move(means), &reader, decoder).WithContext("quantile");
  }

  // One bucket: no code has a bit.
  uint64_t MinEncodedBytes(uint32_t) const override { return sizeof(uint32_t) + sizeof(float); }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    const uint64_t num_buckets = std::min(max_buckets_, k);
    return 4 + 4 * num_buckets + PackedBytes(k, BitsFor(num_buckets));
  }

  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    const std::vector<MeanRange> ranges = MeanRanges(values, max_buckets_);
    for (size_t i = 0; i < values.size(); ++i) errors[i] = ranges[i].MaxDistance(values[i]);
  }

 private:
  static Status ReadMeans(uint64_t k, ByteReader* reader, std::vector<float>* means) {
    uint32_t num_buckets = 0;
    TFC_RETURN_IF_ERROR(reader->Read("number of buckets", &num_buckets));
    const uint64_t limit = std::min<uint64_t>(k, kMaxQuantileBuckets);
    if (num_buckets > limit || (num_buckets == 0) != (k == 0)) {
      return DataLoss("quantile: ", num_buckets, " buckets for ", k, " values, at most ", limit);
    }
    TFC_RETURN_IF_ERROR(reader->ReadArray("means", num_buckets, means));
    for (size_t i = 0; i < means->size(); ++i) {
      if (!IsFiniteBits(FloatBits((*means)[i]))) {
        return DataLoss("quantile: the mean of bucket ", i, " is not finite");
      }
    }
    return OkStatus();
  }

  uint32_t max_buckets_;
};

}  // namespace

Definition<ValueCodec> QuantileValue() {
  return {
      "quantile buckets represented by their means (SketchML 3.2)",
      {{"buckets", ParamKind::kInt, "256", "largest number of buckets", 2, kMaxQuantileBuckets}},
      Make<Quantile>,
      "width of the bucket; never the sign",
      "4 + 4 q + ceil(log2 q) k / 8, q <= buckets"};
}

}  // namespace tfcompress
