// block_int: integers of a few bits times a step of each block of values, rounded to the nearest:
// what 8-bit training systems exchange, with error feedback (docs/codecs.md has the measurements).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/packed_codes.h"
#include "core/value/sums_of_squares.h"

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

constexpr size_t kScaleBytes = sizeof(uint16_t);

// Values of the block from `begin` on, the last of which may have fewer.
int64_t SizeOfBlock(int64_t begin, int64_t size, int64_t block_size) {
  return std::min(block_size, size - begin);
}

// The arithmetic of one number of bits. With 3 bits and more, levels are -L to L times scale / L,
// and the scale is the largest magnitude. With 2, where zero would leave three levels, they are
// -1.5, -0.5, 0.5 and 1.5 times the scale, which is the root of the mean square.
//
// Loops go over whole blocks, from the first value on, whose scales and codes are bytes of the
// section.
class Levels {
 public:
  explicit Levels(int num_bits) : num_bits_(num_bits), largest_((1 << (num_bits - 1)) - 1) {}

  int num_bits() const { return num_bits_; }

  // Half the distance of two levels.
  double HalfStep(uint16_t scale) const {
    return double{ScaleValue(scale)} / (num_bits_ == kMinBits ? 2 : 2 * largest_);
  }
  // What the outermost levels stand for: larger magnitudes are clipped.
  double Reach(uint16_t scale) const {
    return ScaleValue(scale) * (num_bits_ == kMinBits ? 2.0 : 1.0 + 0.5 / largest_);
  }

  void FindScales(const float* values, int64_t size, int64_t block_size,
                  unsigned char* scales) const {
    if (num_bits_ == kMinBits) {
      ScalesOfSquares(values, size, block_size, scales);
    } else {
      Vectorized([=] { ScalesOfLargest(values, size, block_size, scales); });
    }
  }

  void Encode(const float* values, int64_t size, int64_t block_size, const unsigned char* scales,
              unsigned char* codes) const {
    const auto for_each_block = [=](auto encode_block) {
      Vectorized([=] {
        const unsigned char* scale = scales;
        for (int64_t i = 0; i < size; i += block_size, scale += kScaleBytes) {
          encode_block(values + i, SizeOfBlock(i, size, block_size),
                       ScaleValue(LoadUnaligned<uint16_t>(scale)), codes + i);
        }
      });
    };
    if (num_bits_ == kMinBits) {
      for_each_block(EncodeFourLevels);
    } else {
      for_each_block(
          [largest = largest_](const float* block, int64_t count, float scale, unsigned char* out) {
            EncodeLevels(block, count, scale, largest, out);
          });
    }
  }

  // Says whether all scales are valid.
  bool Decode(const unsigned char* codes, int64_t size, int64_t block_size,
              const unsigned char* scales, float* values) const {
    return ForEachDecoded(codes, size, block_size, scales, values,
                          [](float* value, float decoded) { *value = decoded; });
  }
  // The same for what decodes to be taken out of `values`.
  bool SubtractDecoded(const unsigned char* codes, int64_t size, int64_t block_size,
                       const unsigned char* scales, float* values) const {
    return ForEachDecoded(codes, size, block_size, scales, values,
                          [](float* value, float decoded) { *value -= decoded; });
  }

 private:
  template <typename Use>
  bool ForEachDecoded(const unsigned char* codes, int64_t size, int64_t block_size,
                      const unsigned char* scales, float* values, Use use) const {
    const bool is_four = num_bits_ == kMinBits;
    const float units_per_scale = is_four ? 1.0f : static_cast<float>(largest_);
    const float middle = is_four ? 1.5f : static_cast<float>(largest_);
    bool all_valid = true;
    Vectorized([=, out = &all_valid] {
      const unsigned char* next_scale = scales;
      bool valid = true;
      for (int64_t begin = 0; begin < size; begin += block_size, next_scale += kScaleBytes) {
        const auto scale = LoadUnaligned<uint16_t>(next_scale);
        valid &= IsScale(scale);
        const float unit = ScaleValue(scale) / units_per_scale;
        const int64_t end = begin + SizeOfBlock(begin, size, block_size);
        TFC_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          // Adding 0 makes -0 +0.
          use(values + i, (static_cast<float>(int32_t{codes[i]}) - middle) * unit + 0.0f);
        }
      }
      *out = valid;
    });
    return all_valid;
  }

  static void ScalesOfLargest(const float* values, int64_t size, int64_t block_size,
                              unsigned char* scales) {
    for (int64_t begin = 0; begin < size; begin += block_size, scales += kScaleBytes) {
      const int64_t end = begin + SizeOfBlock(begin, size, block_size);
      int32_t max = 0;
      for (int64_t i = begin; i < end; ++i)
        max = std::max(max, static_cast<int32_t>(FloatBits(values[i]) & kFloatMagnitudeBits));
      StoreUnaligned(scales, ScaleOf(FloatFromBits(static_cast<uint32_t>(max))));
    }
  }

  static void ScalesOfSquares(const float* values, int64_t size, int64_t block_size,
                              unsigned char* scales) {
    const auto store = [=](int64_t block, double sum) {
      const int64_t count = SizeOfBlock(block * block_size, size, block_size);
      const double mean = sum / static_cast<double>(count);
      StoreUnaligned(scales + kScaleBytes * block, ScaleOf(static_cast<float>(std::sqrt(mean))));
    };
    ForEachSumOfSquares(values, size, block_size, Subnormals::kKept, store);
  }

  static void EncodeLevels(const float* values, int64_t size, float scale, int32_t largest,
                           unsigned char* codes) {
    const auto limit = static_cast<float>(largest);
    const float per_unit = scale == 0 ? 0.0f : limit / scale;
    TFC_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) {
      float level = values[i] * per_unit;
      level = level < limit ? level : limit;
      level = level > -limit ? level : -limit;
      // Adding 1.5 * 2^23 rounds to an integer, ties to even, which is in the lowest bits.
      const uint32_t rounded = FloatBits(level + 0x1.8p23f) - FloatBits(0x1.8p23f);
      codes[i] = static_cast<unsigned char>(rounded + static_cast<uint32_t>(largest));
    }
  }

  static void EncodeFourLevels(const float* values, int64_t size, float scale,
                               unsigned char* codes) {
    TFC_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) {
      codes[i] = static_cast<unsigned char>(static_cast<uint32_t>(values[i] >= -scale) +
                                            static_cast<uint32_t>(values[i] >= 0.0f) +
                                            static_cast<uint32_t>(values[i] >= scale));
    }
  }

  int num_bits_;
  int32_t largest_;
};

class BlockInt : public ValueCodec {
 public:
  BlockInt(int num_bits, int block_bits) : levels_(num_bits), block_bits_(block_bits) {}

  ChunkEncoder OpenEncoder(uint32_t k, const CodecContext&, Bytes* out) const override {
    const size_t num_scale_bytes = NumScaleBytes(k, block_bits_);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(levels_.num_bits()));
    writer.Write(static_cast<uint8_t>(block_bits_));
    unsigned char* const scales =
        writer.Extend(num_scale_bytes + PackedBytes(k, levels_.num_bits()));
    const auto encode = [levels = levels_, block_bits = block_bits_, scales,
                         packed = scales + num_scale_bytes](int64_t begin, int64_t end,
                                                            const float* values, float* pending) {
      const int64_t block_size = int64_t{1} << block_bits;
      unsigned char* const own_scales = scales + kScaleBytes * (begin >> block_bits);
      ByteCodes chunk(levels.num_bits());
      unsigned char* const codes = chunk.Room(packed, begin);
      levels.FindScales(values, end - begin, block_size, own_scales);
      levels.Encode(values, end - begin, block_size, own_scales, codes);
      chunk.Pack(begin, end, packed);
      if (pending != nullptr)
        levels.SubtractDecoded(codes, end - begin, block_size, own_scales, pending);
    };
    return {kDecodeChunk, encode};
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
    const auto k = static_cast<int64_t>(values.size());
    Bytes scales(NumScaleBytes(k, block_bits_));
    levels_.FindScales(values.data(), k, int64_t{1} << block_bits_, scales.data());
    for (int64_t i = 0; i < k; ++i) {
      const auto scale = LoadUnaligned<uint16_t>(scales.data() + kScaleBytes * (i >> block_bits_));
      const double half_step = levels_.HalfStep(scale) * (1 + 0x1p-14);
      const double clipped = std::fabs(values[i]) - levels_.Reach(scale);
      errors[i] = half_step + std::max(0.0, clipped) + ScaleValue(scale) * 0x1p-20;
    }
  }

 private:
  static constexpr uint64_t kHeaderBytes = 2;

  static size_t NumScaleBytes(int64_t k, int block_bits) {
    return static_cast<size_t>(NumBlocks(k, int64_t{1} << block_bits)) * kScaleBytes;
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
    *decoder = [levels = Levels(num_bits), scales, packed, block_bits](int64_t begin, int64_t end,
                                                                       float* values) {
      ByteCodes codes(levels.num_bits());
      const bool valid =
          levels.Decode(codes.Unpack(packed, begin, end), end - begin, int64_t{1} << block_bits,
                        scales.data() + kScaleBytes * (begin >> block_bits), values);
      return valid ? OkStatus() : DataLoss("the scale of a block is out of range");
    };
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
