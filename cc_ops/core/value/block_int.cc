// block_int: integers of a few bits times a step of each block of values, rounded to the nearest:
// what 8-bit training systems exchange, with error feedback (docs/codecs.md has the measurements).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/block_statistics.h"
#include "core/value/packed_codes.h"

namespace tfcompress {
namespace {

constexpr int kMinBits = 2;
constexpr int kMaxBits = 8;
constexpr int kMinBlockBits = 4;
constexpr int kMaxBlockBits = 10;
static_assert(kDecodeChunk % (1 << kMaxBlockBits) == 0);  // A chunk is whole blocks.

// A block's scale is 0 or in this range, so that neither a step nor its inverse overflows or is
// subnormal, and no decoded value overflows.
constexpr uint16_t kLeastScale = (127 - 100) << 7;    // 2^-100
constexpr uint16_t kLargestScale = (127 + 126) << 7;  // 2^126

float ScaleValue(uint16_t scale) { return FloatFromBits(uint32_t{scale} << 16); }

// The next bfloat16 that is not below `magnitude`, within the range.
uint16_t ScaleOf(float magnitude) {
  const uint32_t rounded_up = (FloatBits(magnitude) + 0xFFFF) >> 16;
  if (rounded_up < kLeastScale) return 0;
  return static_cast<uint16_t>(std::min<uint32_t>(rounded_up, kLargestScale));
}

bool IsScale(uint16_t scale) {
  return scale == 0 || (scale >= kLeastScale && scale <= kLargestScale);
}

// The arithmetic of one number of bits. With 3 bits and more, levels are -L to L times scale / L,
// and the scale is the largest magnitude. With 2, where zero would leave three levels, they are
// -1.5, -0.5, 0.5 and 1.5 times the scale, which is the root of the mean square.
class Levels {
 public:
  explicit Levels(int num_bits) : num_bits_(num_bits), largest_((1 << (num_bits - 1)) - 1) {}

  int num_bits() const { return num_bits_; }

  uint16_t ScaleOfBlock(const float* values, int64_t size) const {
    return num_bits_ == kMinBits ? ScaleOfSquares(values, size) : ScaleOfLargest(values, size);
  }

  // Half the distance of two levels.
  double HalfStep(uint16_t scale) const {
    return double{ScaleValue(scale)} / (num_bits_ == kMinBits ? 2 : 2 * largest_);
  }
  // What the outermost levels stand for: larger magnitudes are clipped.
  double Reach(uint16_t scale) const {
    return ScaleValue(scale) * (num_bits_ == kMinBits ? 2.0 : 1.0 + 0.5 / largest_);
  }

  void Encode(const float* values, int64_t size, uint16_t scale, uint32_t* codes) const {
    if (num_bits_ == kMinBits) return EncodeFourLevels(values, size, ScaleValue(scale), codes);
    const float limit = static_cast<float>(largest_);
    const float per_unit = scale == 0 ? 0.0f : limit / ScaleValue(scale);
    Vectorized([=, largest = largest_] {
      for (int64_t i = 0; i < size; ++i) {
        float level = values[i] * per_unit;
        level = level < limit ? level : limit;
        level = level > -limit ? level : -limit;
        // Adding 1.5 * 2^23 rounds to an integer, ties to even, which is in the lowest bits.
        const uint32_t rounded = FloatBits(level + 0x1.8p23f) - FloatBits(0x1.8p23f);
        codes[i] = rounded + static_cast<uint32_t>(largest);
      }
    });
  }

  void Decode(const uint32_t* codes, int64_t size, uint16_t scale, float* values) const {
    const bool is_four = num_bits_ == kMinBits;
    const float unit = ScaleValue(scale) / (is_four ? 1.0f : static_cast<float>(largest_));
    const float middle = is_four ? 1.5f : static_cast<float>(largest_);
    Vectorized([=] {
      for (int64_t i = 0; i < size; ++i) {
        // Adding 0 makes -0 +0.
        values[i] = (static_cast<float>(static_cast<int32_t>(codes[i])) - middle) * unit + 0.0f;
      }
    });
  }

 private:
  static uint16_t ScaleOfLargest(const float* values, int64_t size) {
    int32_t largest = 0;
    Vectorized([=, out = &largest] {
      int32_t max = 0;
      for (int64_t i = 0; i < size; ++i)
        max = std::max(max, static_cast<int32_t>(FloatBits(values[i]) & kFloatMagnitudeBits));
      *out = max;
    });
    return ScaleOf(FloatFromBits(static_cast<uint32_t>(largest)));
  }

  static uint16_t ScaleOfSquares(const float* values, int64_t size) {
    double sum = 0;
    Vectorized([=, out = &sum] {
      *out = SumTerms(0, size, [=](int64_t i) { return double{values[i]} * values[i]; });
    });
    return ScaleOf(static_cast<float>(std::sqrt(sum / static_cast<double>(size))));
  }

  static void EncodeFourLevels(const float* values, int64_t size, float scale, uint32_t* codes) {
    Vectorized([=] {
      for (int64_t i = 0; i < size; ++i) {
        codes[i] = static_cast<uint32_t>(values[i] >= -scale) +
                   static_cast<uint32_t>(values[i] >= 0.0f) +
                   static_cast<uint32_t>(values[i] >= scale);
      }
    });
  }

  int num_bits_;
  int largest_;
};

class BlockInt : public ValueCodec {
 public:
  BlockInt(int num_bits, int block_bits) : levels_(num_bits), block_bits_(block_bits) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const auto k = static_cast<int64_t>(values.size());
    const size_t num_scale_bytes = NumScaleBytes(k, block_bits_);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(levels_.num_bits()));
    writer.Write(static_cast<uint8_t>(block_bits_));
    unsigned char* const scales =
        writer.Extend(num_scale_bytes + PackedBytes(k, levels_.num_bits()));
    const auto make_codes = [&](int64_t begin, int64_t end, uint32_t* codes) {
      ForEachPart(begin, end, [&](int64_t block, int64_t i, int64_t size) {
        const uint16_t scale = levels_.ScaleOfBlock(values.data() + i, size);
        StoreUnaligned(scales + sizeof(scale) * block, scale);
        levels_.Encode(values.data() + i, size, scale, codes + (i - begin));
      });
    };
    PackCodes(k, levels_.num_bits(), context.executor, scales + num_scale_bytes, make_codes);
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    return OpenSection(section, k, decoder).WithContext("block_int");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + NumScaleBytes(k, kMaxBlockBits) + PackedBytes(k, kMinBits);
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + NumScaleBytes(k, block_bits_) + PackedBytes(k, levels_.num_bits());
  }

  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  // Half a step, or what is clipped, plus rounding to float32.
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    ForEachPart(0, static_cast<int64_t>(values.size()), [&](int64_t, int64_t i, int64_t size) {
      const uint16_t scale = levels_.ScaleOfBlock(values.data() + i, size);
      const double half_step = levels_.HalfStep(scale) * (1 + 0x1p-14);
      for (int64_t j = i; j < i + size; ++j) {
        const double clipped = std::fabs(values[j]) - levels_.Reach(scale);
        errors[j] = half_step + std::max(0.0, clipped) + ScaleValue(scale) * 0x1p-20;
      }
    });
  }

 private:
  static constexpr uint64_t kHeaderBytes = 2;

  static size_t NumScaleBytes(int64_t k, int block_bits) {
    return static_cast<size_t>(NumBlocks(k, int64_t{1} << block_bits)) * sizeof(uint16_t);
  }

  // Calls body(block, begin, size) for the blocks of [begin, end), a chunk or several.
  template <typename Body>
  static void ForEachPart(int64_t begin, int64_t end, int block_bits, const Body& body) {
    const int64_t block_size = int64_t{1} << block_bits;
    for (; begin < end; begin += block_size) {
      body(begin >> block_bits, begin, std::min(block_size, end - begin));
    }
  }
  template <typename Body>
  void ForEachPart(int64_t begin, int64_t end, const Body& body) const {
    ForEachPart(begin, end, block_bits_, body);
  }

  static Status OpenSection(ByteSpan section, uint32_t k, ChunkDecoder* decoder) {
    ByteReader reader(section);
    uint8_t num_bits = 0, block_bits = 0;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("size of a block", &block_bits));
    if (num_bits < kMinBits || num_bits > kMaxBits || block_bits < kMinBlockBits ||
        block_bits > kMaxBlockBits) {
      return DataLoss("codes of ", int{num_bits}, " bits in blocks of 2^", int{block_bits});
    }
    ByteSpan scales, packed;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("scales", NumScaleBytes(k, block_bits), &scales));
    TFC_RETURN_IF_ERROR(ReadCodes(k, num_bits, &reader, &packed));
    *decoder = DecodeCodes(
        packed, num_bits,
        [levels = Levels(num_bits), scales, block_bits](int64_t begin, int64_t end,
                                                        const uint32_t* codes, float* values) {
          bool valid = true;
          ForEachPart(begin, end, block_bits, [&](int64_t block, int64_t i, int64_t size) {
            const auto scale = LoadUnaligned<uint16_t>(scales.data() + sizeof(uint16_t) * block);
            valid &= IsScale(scale);
            levels.Decode(codes + (i - begin), size, scale, values + (i - begin));
          });
          return valid ? OkStatus() : DataLoss("the scale of a block is out of range");
        });
    return OkStatus();
  }

  Levels levels_;
  int block_bits_;
};

}  // namespace

Definition<ValueCodec> BlockIntValue() {
  return {"integers times a step of each block, rounded to the nearest (block-scaled integers)",
          {{"bits", ParamKind::kInt, "8", "bits of a value", kMinBits, kMaxBits},
           {"block",
            ParamKind::kChoice,
            "256",
            "values that share a scale",
            0,
            0,
            false,
            {"16", "64", "256", "1024"}}},
          [](const Params& params) -> std::unique_ptr<const ValueCodec> {
            return std::make_unique<BlockInt>(static_cast<int>(params.Int("bits")),
                                              kMinBlockBits + 2 * params.Choice("block"));
          },
          "half a step: max of the block / (2^bits - 2); 2 bits: half the root mean square, more "
          "where twice that is exceeded",
          "2 + 2 ceil(k / block) + bits k / 8"};
}

}  // namespace tfcompress
