// qsgd: multiples of a fraction of the norm of each bucket, rounded stochastically: the expectation
// of a decoded value is the value (QSGD; buckets and bits as DeepReduce 6.3 sets them).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/code_chunks.h"
#include "core/value/rounding_noise.h"

namespace tfcompress {
namespace {

constexpr int kMinBits = 2;
constexpr int kMaxBits = 8;
constexpr uint32_t kMaxBucketSize = 65536;

struct Config {
  int num_bits;
  uint32_t bucket_size;

  // Of a magnitude: 0 to this one.
  int32_t LargestLevel() const { return (1 << (num_bits - 1)) - 1; }
  int64_t NumBuckets(int64_t k) const { return NumBlocks(k, bucket_size); }
};

// Calls body(bucket, begin, end) for the parts of [begin, end) that lie in one bucket each.
template <typename Body>
void ForEachBucketPart(int64_t begin, int64_t end, int64_t bucket_size, const Body& body) {
  while (begin < end) {
    const int64_t bucket = begin / bucket_size;
    const int64_t part_end = std::min(end, (bucket + 1) * bucket_size);
    body(bucket, begin, part_end);
    begin = part_end;
  }
}

// The 2-norm of each bucket: at least its largest magnitude, since every step rounds monotonically.
std::vector<float> NormsOf(Span<const float> values, const Config& config, Executor* executor) {
  constexpr double kLargestFloat = 0x1.FFFFFEp127;
  std::vector<float> norms(config.NumBuckets(values.size()));
  const int64_t buckets_per_block = NumBlocks(kBlockElements, config.bucket_size);
  auto norms_of_block = [&](int64_t, int64_t begin, int64_t end) {
    ForEachBucketPart(begin, end, config.bucket_size, [&](int64_t bucket, int64_t i, int64_t last) {
      const double sum = SumTerms(i, last, [&](int64_t j) {
        const double value = NormalOrZero(values[j]);
        return value * value;
      });
      norms[bucket] = static_cast<float>(std::min(std::sqrt(sum), kLargestFloat));
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
    writer.Write(static_cast<uint8_t>(config_.num_bits));
    writer.Write(config_.bucket_size);
    writer.WriteArray<float>(norms);
    const RoundingNoise noise(context.seed);
    PackChunks(values.size(), config_.num_bits, context.executor,
               writer.Extend(PackedBytes(values.size(), config_.num_bits)),
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

  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + config_.NumBuckets(k) * sizeof(float) + PackedBytes(k, config_.num_bits);
  }

  // A level, what rounding to float32 adds, and subnormal numbers that became 0.
  double MaxError(Span<const float> values) const override {
    float largest = 0;
    for (float norm : NormsOf(values, config_, SerialExecutor())) largest = std::max(largest, norm);
    return largest * (1.0 / config_.LargestLevel() + 0x1p-23) + 0x1p-125;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 5;

  // Replaces the noise in `codes` by the codes of values of one bucket: the sign above the level.
  void RoundPart(Span<const float> values, float norm, uint32_t* codes) const {
    const double scale = static_cast<double>(config_.LargestLevel() << RoundingNoise::kBits);
    const double levels_per_unit = norm == 0 ? 0 : scale / norm;
    const int sign_shift = 32 - config_.num_bits;
    const uint32_t sign_mask = 1u << (config_.num_bits - 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const double level = std::fabs(NormalOrZero(values[i])) * levels_per_unit;
      const uint32_t rounded =
          (static_cast<uint32_t>(static_cast<int32_t>(level)) + codes[i]) >> RoundingNoise::kBits;
      codes[i] = rounded | ((FloatBits(values[i]) >> sign_shift) & sign_mask);
    }
  }

  static Status DecodeSection(ByteSpan section, Executor* executor, Span<float> values) {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    uint32_t bucket_size = 0;
    std::vector<float> norms;
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("bucket size", &bucket_size));
    if (num_bits < kMinBits || num_bits > kMaxBits || bucket_size == 0) {
      return DataLoss("codes of ", int{num_bits}, " bits in buckets of ", bucket_size);
    }
    const Config config{num_bits, bucket_size};
    TFC_RETURN_IF_ERROR(reader.ReadArray("norms", config.NumBuckets(values.size()), &norms));
    for (float norm : norms) {
      if (FloatBits(norm) >= kFloatInfinityBits) return DataLoss("the norm of a bucket is ", norm);
    }
    TFC_RETURN_IF_ERROR(reader.ReadSpan("codes", PackedBytes(values.size(), num_bits), &packed));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("codes"));
    UnpackChunks(
        packed, values.size(), num_bits, executor,
        [&](int64_t begin, int64_t end, const uint32_t* codes) {
          ForEachBucketPart(begin, end, bucket_size, [&](int64_t bucket, int64_t i, int64_t last) {
            ScalePart(codes + (i - begin), config, norms[bucket], values.subspan(i, last - i));
          });
        });
    return OkStatus();
  }

  static void ScalePart(const uint32_t* codes, const Config& config, float norm,
                        Span<float> values) {
    const auto largest_level = static_cast<uint32_t>(config.LargestLevel());
    const double unit = NormalOrZero(norm) / largest_level;
    const int sign_shift = config.num_bits - 1;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto magnitude = static_cast<int32_t>(codes[i] & largest_level);
      const auto sign = -static_cast<int32_t>(codes[i] >> sign_shift);  // All bits, or none.
      values[i] = RoundToNormal(((magnitude ^ sign) - sign) * unit);
    }
  }

  Config config_;
};

}  // namespace

Definition<ValueCodec> QsgdValue() {
  return {"stochastic multiples of a fraction of each bucket's norm (QSGD; DeepReduce 6.3)",
          {{"bits", ParamKind::kInt, "7", "bits of a value, its sign included", kMinBits, kMaxBits},
           {"bucket", ParamKind::kInt, "512", "values that share a norm", 1, kMaxBucketSize}},
          [](const Params& params) -> std::unique_ptr<const ValueCodec> {
            return std::make_unique<Qsgd>(Config{static_cast<int>(params.Int("bits")),
                                                 static_cast<uint32_t>(params.Int("bucket"))});
          },
          "norm of the bucket / (2^(bits - 1) - 1); right on average",
          "5 + 4 ceil(k / bucket) + bits k / 8"};
}

}  // namespace tfcompress
