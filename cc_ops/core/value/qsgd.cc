// qsgd: multiples of a fraction of the norm of each bucket, rounded stochastically: the expectation
// of a decoded value is the value (QSGD; buckets and bits as DeepReduce 6.3 sets them).
#include <algorithm>

#include "core/byte_io.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/packed_codes.h"
#include "core/value/qsgd_levels.h"
#include "core/value/sums_of_squares.h"

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

// Stores the norms of the buckets of some values, which begin with a bucket.
void StoreNorms(const float* values, int64_t size, int64_t bucket_size, unsigned char* norms) {
  ForEachSumOfSquares(values, size, bucket_size, Subnormals::kZero,
                      [=](int64_t bucket, double sum) {
                        StoreUnaligned(norms + sizeof(float) * bucket, QsgdLevels::Norm(sum));
                      });
}

float LoadNorm(const unsigned char* norms, int64_t bucket) {
  return LoadUnaligned<float>(norms + sizeof(float) * bucket);
}

// What codes of one number of bits and buckets of one size do to values [begin, end) of a section,
// at most kDecodeChunk of them, by the norms of its buckets.
struct Quantizer {
  QsgdLevels levels;
  int64_t bucket_size;

  void Encode(const RoundingNoise& noise, const unsigned char* norms, int64_t begin, int64_t end,
              const float* values, unsigned char* codes) const {
    uint32_t buffer[kDecodeChunk];
    Vectorized([=, levels = levels, bucket_size = bucket_size, wide = buffer + 0] {
      noise.Fill(begin, end, wide);
      ForEachBucketPart(begin, end, bucket_size, [=](int64_t bucket, int64_t first, int64_t last) {
        const double steps_per_unit = levels.StepsPerUnit(LoadNorm(norms, bucket));
        for (int64_t i = first - begin; i < last - begin; ++i)
          wide[i] = levels.Code(values[i], steps_per_unit, wide[i]);
      });
      for (int64_t i = 0; i < end - begin; ++i) codes[i] = static_cast<unsigned char>(wide[i]);
    });
  }

  void Decode(const unsigned char* norms, int64_t begin, int64_t end, const unsigned char* codes,
              float* values) const {
    Vectorized([=, levels = levels, bucket_size = bucket_size] {
      ForEachBucketPart(begin, end, bucket_size, [=](int64_t bucket, int64_t first, int64_t last) {
        const double unit = levels.Unit(LoadNorm(norms, bucket));
        TFC_INDEPENDENT
        for (int64_t i = first - begin; i < last - begin; ++i)
          values[i] = levels.Value(codes[i], unit);
      });
    });
  }
};

class Qsgd : public ValueCodec {
 public:
  explicit Qsgd(const Params& params)
      : config_{QsgdLevels(static_cast<int>(params.Int("bits"))),
                static_cast<uint32_t>(params.Int("bucket"))} {}

  ChunkEncoder OpenEncoder(uint32_t k, const CodecContext& context, Bytes* out) const override {
    const int num_bits = config_.levels.num_bits();
    const int64_t bucket_size = config_.bucket_size;
    const size_t num_norm_bytes = config_.NumBuckets(k) * sizeof(float);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(num_bits));
    writer.Write(config_.bucket_size);
    unsigned char* const norms = writer.Extend(num_norm_bytes + PackedBytes(k, num_bits));
    const auto encode = [=, quantizer = Quantizer{config_.levels, bucket_size},
                         noise = RoundingNoise(context.seed),
                         packed = norms + num_norm_bytes](int64_t chunk_begin, int64_t chunk_end,
                                                          const float* values, float* pending) {
      StoreNorms(values, chunk_end - chunk_begin, bucket_size,
                 norms + sizeof(float) * (chunk_begin / bucket_size));
      ByteCodes part(num_bits);
      float decoded[kDecodeChunk];
      for (int64_t begin = chunk_begin; begin < chunk_end; begin += kDecodeChunk) {
        const int64_t end = std::min(chunk_end, begin + kDecodeChunk);
        unsigned char* const codes = part.Room(packed, begin);
        quantizer.Encode(noise, norms, begin, end, values + (begin - chunk_begin), codes);
        part.Pack(begin, end, packed);
        if (pending == nullptr) continue;
        quantizer.Decode(norms, begin, end, codes, decoded);
        Subtract(decoded, end - begin, pending + (begin - chunk_begin));
      }
    };
    // Chunks of whole buckets, whose codes start at a byte.
    const int64_t unit = 8 * bucket_size;
    return {kDecodeChunk % bucket_size == 0 ? kDecodeChunk : unit * NumBlocks(kDecodeChunk, unit),
            encode};
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
    const auto k = static_cast<int64_t>(values.size());
    Bytes norms(config_.NumBuckets(k) * sizeof(float));
    StoreNorms(values.data(), k, config_.bucket_size, norms.data());
    float largest = 0;
    for (int64_t i = 0; i < config_.NumBuckets(k); ++i)
      largest = std::max(largest, LoadNorm(norms.data(), i));
    return largest * (1.0 / config_.levels.largest() + 0x1p-23) + 0x1p-125;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 5;

  static Status OpenSection(ByteSpan section, uint32_t k, ChunkDecoder* decoder) {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    uint32_t bucket_size = 0;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("bucket size", &bucket_size));
    if (num_bits < QsgdLevels::kMinBits || num_bits > QsgdLevels::kMaxBits || bucket_size == 0) {
      return DataLoss("codes of ", int{num_bits}, " bits in buckets of ", bucket_size);
    }
    const Config config{QsgdLevels(num_bits), bucket_size};
    const auto num_buckets = static_cast<uint64_t>(config.NumBuckets(k));
    ByteSpan norms, packed;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("norms", num_buckets * sizeof(float), &norms));
    for (uint64_t i = 0; i < num_buckets; ++i) {
      const float norm = LoadNorm(norms.data(), static_cast<int64_t>(i));
      if (FloatBits(norm) >= kFloatInfinityBits) return DataLoss("the norm of a bucket is ", norm);
    }
    TFC_RETURN_IF_ERROR(ReadCodes(k, num_bits, &reader, &packed));
    *decoder = [=, quantizer = Quantizer{config.levels, bucket_size}](int64_t begin, int64_t end,
                                                                      float* values) {
      ByteCodes codes(num_bits);
      quantizer.Decode(norms.data(), begin, end, codes.Unpack(packed, begin, end), values);
      return OkStatus();
    };
    return OkStatus();
  }

  Config config_;
};

}  // namespace

Definition<ValueCodec> QsgdValue() {
  return {"stochastic multiples of a fraction of each bucket's norm (QSGD; DeepReduce 6.3)",
          {{"bits", ParamKind::kInt, "7", "bits of a value, its sign included",
            QsgdLevels::kMinBits, QsgdLevels::kMaxBits},
           {"bucket", ParamKind::kInt, "512", "values that share a norm", 1, kMaxBucketSize}},
          Make<Qsgd>,
          "norm of the bucket / (2^(bits - 1) - 1); right on average",
          "5 + 4 ceil(k / bucket) + bits k / 8"};
}

}  // namespace tfcompress
