// qsgd: multiples of a fraction of the norm of each bucket, rounded stochastically: the expectation
// of a decoded value is the value (QSGD; buckets and bits as DeepReduce 6.3 sets them).
#include <algorithm>
#include <utility>

#include "core/byte_io.h"
#include "core/registry.h"
#include "core/simd.h"
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

float NormOf(Span<const float> values) {
  double sum = 0;
  const float* x = values.data();
  Vectorized([=, out = &sum, size = static_cast<int64_t>(values.size())] {
    *out = SumTerms(0, size, [=](int64_t i) {
      const double value = NormalOrZero(x[i]);
      return value * value;
    });
  });
  return QsgdLevels::Norm(sum);
}

class Qsgd : public ValueCodec {
 public:
  explicit Qsgd(const Config& config) : config_(config) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const auto k = static_cast<int64_t>(values.size());
    const int num_bits = config_.levels.num_bits();
    const int64_t bucket_size = config_.bucket_size;
    const size_t num_norm_bytes = config_.NumBuckets(k) * sizeof(float);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(num_bits));
    writer.Write(config_.bucket_size);
    unsigned char* const norms = writer.Extend(num_norm_bytes + PackedBytes(k, num_bits));
    const RoundingNoise noise(context.seed);
    const auto encode_block = [&](int64_t, int64_t begin, int64_t block_end) {
      uint32_t codes[kDecodeChunk];
      float norm = 0;
      for (; begin < block_end; begin += kDecodeChunk) {
        const int64_t end = std::min(block_end, begin + kDecodeChunk);
        Vectorized([=, noise_out = codes + 0] { noise.Fill(begin, end, noise_out); });
        ForEachBucketPart(begin, end, bucket_size, [&](int64_t bucket, int64_t i, int64_t last) {
          if (i == bucket * bucket_size) {
            norm = NormOf(values.subspan(i, std::min(bucket_size, k - i)));
            StoreUnaligned(norms + sizeof(float) * bucket, norm);
          }
          RoundPart(values.subspan(i, last - i), norm, codes + (i - begin));
        });
        PackChunk(codes, begin, end, num_bits, norms + num_norm_bytes);
      }
    };
    // Blocks of whole buckets, whose codes start at a byte.
    const int64_t unit = 8 * bucket_size;
    ForEachBlock(context.executor, k, encode_block, unit * NumBlocks(kBlockElements, unit));
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    return OpenSection(section, k, decoder).WithContext("qsgd");
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
    for (size_t i = 0; i < values.size(); i += config_.bucket_size) {
      const size_t size = std::min<size_t>(config_.bucket_size, values.size() - i);
      largest = std::max(largest, NormOf(values.subspan(i, size)));
    }
    return largest * (1.0 / config_.levels.largest() + 0x1p-23) + 0x1p-125;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 5;

  // Replaces the noise in `codes` by the codes of values of one bucket.
  void RoundPart(Span<const float> values, float norm, uint32_t* codes) const {
    const QsgdLevels levels = config_.levels;
    const double steps_per_unit = levels.StepsPerUnit(norm);
    Vectorized([=, x = values.data(), size = values.size()] {
      for (size_t i = 0; i < size; ++i) codes[i] = levels.Code(x[i], steps_per_unit, codes[i]);
    });
  }

  static Status OpenSection(ByteSpan section, uint32_t k, ChunkDecoder* decoder) {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    uint32_t bucket_size = 0;
    std::vector<float> norms;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("bucket size", &bucket_size));
    if (num_bits < QsgdLevels::kMinBits || num_bits > QsgdLevels::kMaxBits || bucket_size == 0) {
      return DataLoss("codes of ", int{num_bits}, " bits in buckets of ", bucket_size);
    }
    const Config config{QsgdLevels(num_bits), bucket_size};
    TFC_RETURN_IF_ERROR(reader.ReadArray("norms", config.NumBuckets(k), &norms));
    for (float norm : norms) {
      if (FloatBits(norm) >= kFloatInfinityBits) return DataLoss("the norm of a bucket is ", norm);
    }
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(ReadCodes(k, num_bits, &reader, &packed));
    auto scale = [config, norms = std::move(norms)](int64_t begin, int64_t end,
                                                    const uint32_t* codes, float* values) {
      ForEachBucketPart(begin, end, config.bucket_size,
                        [&](int64_t bucket, int64_t i, int64_t last) {
                          ScalePart(codes + (i - begin), config.levels, norms[bucket], last - i,
                                    values + (i - begin));
                        });
      return OkStatus();
    };
    *decoder = DecodeCodes(packed, num_bits, std::move(scale));
    return OkStatus();
  }

  static void ScalePart(const uint32_t* codes, QsgdLevels levels, float norm, int64_t size,
                        float* values) {
    const double unit = levels.Unit(norm);
    Vectorized([=] {
      for (int64_t i = 0; i < size; ++i) values[i] = levels.Value(codes[i], unit);
    });
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
