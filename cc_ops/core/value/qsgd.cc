// qsgd: multiples of a fraction of the norm of each bucket, rounded stochastically: the expectation
// of a decoded value is the value (QSGD; buckets and bits as DeepReduce 6.3 sets them).
#include <algorithm>

#include "core/byte_io.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/packed_codes.h"
#include "core/value/qsgd_levels.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxBucketSize = 65536;

struct Config {
  QsgdLevels levels;
  uint32_t bucket_size;

  int64_t NumBuckets(int64_t k) const { return NumBlocks(k, bucket_size); }
};

// Calls body(bucket, begin, end) for the part of [begin, end) in each bucket.
template <typename Body>
void ForEachBucketPart(int64_t begin, int64_t end, int64_t bucket_size, const Body& body) {
  while (begin < end) {
    const int64_t bucket = begin / bucket_size;
    const int64_t part_end = std::min(end, (bucket + 1) * bucket_size);
    body(bucket, begin, part_end);
    begin = part_end;
  }
}

// Returns the 2-norm of each bucket.
std::vector<float> NormsOf(Span<const float> values, const Config& config, Executor* executor) {
  std::vector<float> norms(config.NumBuckets(values.size()));
  const int64_t buckets_per_block = NumBlocks(kBlockElements, config.bucket_size);
  auto norms_of_block = [&](int64_t, int64_t begin, int64_t end) {
    ForEachBucketPart(begin, end, config.bucket_size, [&](int64_t bucket, int64_t i, int64_t last) {
      const double sum = SumTerms(i, last, [&](int64_t j) {
        const double value = NormalOrZero(values[j]);
        return value * value;
      });
      norms[bucket] = QsgdLevels::Norm(sum);
    });
  };
  ForEachBlock(executor, values.size(), norms_of_block, buckets_per_block * config.bucket_size);
  return norms;
}

class Qsgd : public ValueCodec {
 public:
  explicit Qsgd(const Config& config) : config_(config) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const std::vector<float> norms = NormsOf(values, config_, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(config_.levels.num_bits()));
    writer.Write(config_.bucket_size);
    writer.WriteArray<float>(norms);
    const RoundingNoise noise(context.seed);
    PackCodes(values.size(), config_.levels.num_bits(), context.executor,
              writer.Extend(PackedBytes(values.size(), config_.levels.num_bits())),
              [&](int64_t begin, int64_t end, uint32_t* codes) {
                noise.Fill(begin, end, codes);
                ForEachBucketPart(
                    begin, end, config_.bucket_size, [&](int64_t bucket, int64_t i, int64_t last) {
                      RoundPart(values.subspan(i, last - i), norms[bucket], codes + (i - begin));
                    });
              });
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    return DecodeSection(section, context.executor, values).WithContext("qsgd");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + sizeof(float) + PackedBytes(k, QsgdLevels::kMinBits);
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + config_.NumBuckets(k) * sizeof(float) +
           PackedBytes(k, config_.levels.num_bits());
  }

  // One level, plus rounding to float32 and subnormal numbers that became 0.
  double MaxError(Span<const float> values) const override {
    float largest = 0;
    for (float norm : NormsOf(values, config_, SerialExecutor())) largest = std::max(largest, norm);
    return largest * (1.0 / config_.levels.largest() + 0x1p-23) + 0x1p-125;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 5;

  // Replaces the noise in `codes` by the codes of values of one bucket.
  void RoundPart(Span<const float> values, float norm, uint32_t* codes) const {
    const QsgdLevels levels = config_.levels;
    const double steps_per_unit = levels.StepsPerUnit(norm);
    for (size_t i = 0; i < values.size(); ++i)
      codes[i] = levels.Code(values[i], steps_per_unit, codes[i]);
  }

  static Status DecodeSection(ByteSpan section, Executor* executor, Span<float> values) {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    uint32_t bucket_size = 0;
    std::vector<float> norms;
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("bucket size", &bucket_size));
    if (num_bits < QsgdLevels::kMinBits || num_bits > QsgdLevels::kMaxBits || bucket_size == 0) {
      return DataLoss("codes of ", int{num_bits}, " bits in buckets of ", bucket_size);
    }
    const Config config{QsgdLevels(num_bits), bucket_size};
    TFC_RETURN_IF_ERROR(reader.ReadArray("norms", config.NumBuckets(values.size()), &norms));
    for (float norm : norms) {
      if (FloatBits(norm) >= kFloatInfinityBits) return DataLoss("the norm of a bucket is ", norm);
    }
    TFC_RETURN_IF_ERROR(reader.ReadSpan("codes", PackedBytes(values.size(), num_bits), &packed));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("codes"));
    UnpackCodes(packed, values.size(), num_bits, executor,
                [&](int64_t begin, int64_t end, const uint32_t* codes) {
                  ForEachBucketPart(begin, end, bucket_size,
                                    [&](int64_t bucket, int64_t i, int64_t last) {
                                      ScalePart(codes + (i - begin), config.levels, norms[bucket],
                                                values.subspan(i, last - i));
                                    });
                });
    return OkStatus();
  }

  static void ScalePart(const uint32_t* codes, QsgdLevels levels, float norm, Span<float> values) {
    const double unit = levels.Unit(norm);
    for (size_t i = 0; i < values.size(); ++i) values[i] = levels.Value(codes[i], unit);
  }

  Config config_;
};

}  // namespace

Definition<ValueCodec> QsgdValue() {
  return {"stochastic multiples of a fraction of each bucket's norm (QSGD; DeepReduce 6.3)",
          {{"bits", ParamKind::kInt, "7", "bits of a value, its sign included",
            QsgdLevels::kMinBits, QsgdLevels::kMaxBits},
           {"bucket", ParamKind::kInt, "512", "values that share a norm", 1, kMaxBucketSize}},
          [](const Params& params) -> std::unique_ptr<const ValueCodec> {
            return std::make_unique<Qsgd>(Config{QsgdLevels(static_cast<int>(params.Int("bits"))),
                                                 static_cast<uint32_t>(params.Int("bucket"))});
          },
          "norm of the bucket / (2^(bits - 1) - 1); right on average",
          "5 + 4 ceil(k / bucket) + bits k / 8"};
}

}  // namespace tfcompress
