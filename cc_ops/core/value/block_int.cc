// block_int: integers of a few bits times a step of each block of values, rounded to the nearest:
// what 8-bit training systems exchange, with error feedback (docs/codecs.md has the measurements).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/block_int_levels.h"
#include "core/value/block_statistics.h"
#include "core/value/packed_codes.h"

namespace tfcompress {
namespace {

using Levels = BlockIntLevels;
static_assert(kDecodeChunk % (1 << Levels::kMaxBlockBits) == 0);  // A chunk is whole blocks.

uint16_t ScaleOfLargest(const float* values, int64_t size) {
  int32_t largest = 0;
  Vectorized([=, out = &largest] {
    int32_t max = 0;
    for (int64_t i = 0; i < size; ++i)
      max = std::max(max, static_cast<int32_t>(FloatBits(values[i]) & kFloatMagnitudeBits));
    *out = max;
  });
  return Levels::ScaleOf(FloatFromBits(static_cast<uint32_t>(largest)));
}

uint16_t ScaleOfSquares(const float* values, int64_t size) {
  double sum = 0;
  Vectorized([=, out = &sum] {
    *out = SumTerms(0, size, [=](int64_t i) { return Levels::Square(values[i]); });
  });
  return Levels::ScaleOfSquares(sum, size);
}

uint16_t ScaleOfBlock(const Levels& levels, const float* values, int64_t size) {
  return levels.are_four() ? ScaleOfSquares(values, size) : ScaleOfLargest(values, size);
}

void EncodeBlock(const Levels& levels, const float* values, int64_t size, uint16_t scale,
                 uint32_t* codes) {
  if (levels.are_four()) {
    return Vectorized([=, value_of_scale = Levels::ScaleValue(scale)] {
      for (int64_t i = 0; i < size; ++i) codes[i] = Levels::CodeOfFour(values[i], value_of_scale);
    });
  }
  Vectorized([=, steps_per_unit = levels.StepsPerUnit(scale)] {
    for (int64_t i = 0; i < size; ++i) codes[i] = levels.CodeOfMany(values[i], steps_per_unit);
  });
}

void DecodeBlock(const Levels& levels, const uint32_t* codes, int64_t size, uint16_t scale,
                 float* values) {
  Vectorized([=, middle = levels.Middle(), step = levels.Step(scale)] {
    for (int64_t i = 0; i < size; ++i) values[i] = Levels::Value(codes[i], middle, step);
  });
}

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
        const uint16_t scale = ScaleOfBlock(levels_, values.data() + i, size);
        StoreUnaligned(scales + sizeof(scale) * block, scale);
        EncodeBlock(levels_, values.data() + i, size, scale, codes + (i - begin));
      });
    };
    PackCodes(k, levels_.num_bits(), context.executor, scales + num_scale_bytes, make_codes);
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    return OpenSection(section, k, decoder).WithContext("block_int");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + NumScaleBytes(k, Levels::kMaxBlockBits) +
           PackedBytes(k, Levels::kMinBits);
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
      const uint16_t scale = ScaleOfBlock(levels_, values.data() + i, size);
      const double half_step = levels_.HalfStep(scale) * (1 + 0x1p-14);
      for (int64_t j = i; j < i + size; ++j) {
        const double clipped = std::fabs(values[j]) - levels_.Reach(scale);
        errors[j] = half_step + std::max(0.0, clipped) + Levels::ScaleValue(scale) * 0x1p-20;
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
    if (num_bits < Levels::kMinBits || num_bits > Levels::kMaxBits ||
        block_bits < Levels::kMinBlockBits || block_bits > Levels::kMaxBlockBits) {
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
            valid &= Levels::IsScale(scale);
            DecodeBlock(levels, codes + (i - begin), size, scale, values + (i - begin));
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
          {{"bits", ParamKind::kInt, "8", "bits of a value", Levels::kMinBits, Levels::kMaxBits},
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
                                              Levels::kMinBlockBits + 2 * params.Choice("block"));
          },
          "half a step: max of the block / (2^bits - 2); 2 bits: half the root mean square, more "
          "where twice that is exceeded",
          "2 + 2 ceil(k / block) + bits k / 8"};
}

}  // namespace tfcompress
