// block_int: integers of a few bits times a step of each block of values, rounded to the nearest:
// what 8-bit training systems exchange, with error feedback (docs/codecs.md has the measurements).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/block_int_levels.h"
#include "core/value/packed_codes.h"
#include "core/value/sums_of_squares.h"

namespace tfcompress {
namespace {

using Levels = BlockIntLevels;
// Encoded at a time: the gradient's and the memory's share of a chunk stay in L1 with its codes.
constexpr int64_t kEncodeChunk = kDecodeChunk / 2;
static_assert(kEncodeChunk % (1 << Levels::kMaxBlockBits) == 0);  // A chunk is whole blocks.

constexpr size_t kScaleBytes = sizeof(uint16_t);

// Values of the block from `begin` on, the last of which may have fewer.
int64_t SizeOfBlock(int64_t begin, int64_t size, int64_t block_size) {
  return std::min(block_size, size - begin);
}

// The loops below go over whole blocks, from the first value on, whose scales and codes are bytes
// of the section.

void ScalesOfLargest(const float* values, int64_t size, int64_t block_size, unsigned char* scales) {
  for (int64_t begin = 0; begin < size; begin += block_size, scales += kScaleBytes) {
    const int64_t end = begin + SizeOfBlock(begin, size, block_size);
    int32_t max = 0;
    for (int64_t i = begin; i < end; ++i)
      max = std::max(max, static_cast<int32_t>(MagnitudeBits(values[i])));
    StoreUnaligned(scales, Levels::ScaleOf(FloatFromBits(static_cast<uint32_t>(max))));
  }
}

void ScalesOfSquares(const float* values, int64_t size, int64_t block_size, unsigned char* scales) {
  const auto store = [=](int64_t block, double sum) {
    const int64_t count = SizeOfBlock(block * block_size, size, block_size);
    StoreUnaligned(scales + kScaleBytes * block, Levels::ScaleOfSquares(sum, count));
  };
  ForEachSumOfSquares(values, size, block_size, Subnormals::kKept, store);
}

void FindScales(const Levels& levels, const float* values, int64_t size, int64_t block_size,
                unsigned char* scales) {
  if (levels.are_four()) {
    ScalesOfSquares(values, size, block_size, scales);
  } else {
    Vectorized([=] { ScalesOfLargest(values, size, block_size, scales); });
  }
}

// Codes are code_of(value, argument_of(scale)).
template <typename ArgumentOf, typename CodeOf>
void EncodeEachBlock(const float* values, int64_t size, int64_t block_size,
                     const unsigned char* scales, unsigned char* codes, ArgumentOf argument_of,
                     CodeOf code_of) {
  Vectorized([=] {
    const unsigned char* scale = scales;
    for (int64_t begin = 0; begin < size; begin += block_size, scale += kScaleBytes) {
      const float argument = argument_of(LoadUnaligned<uint16_t>(scale));
      const int64_t end = begin + SizeOfBlock(begin, size, block_size);
      TFC_INDEPENDENT
      for (int64_t i = begin; i < end; ++i)
        codes[i] = static_cast<unsigned char>(code_of(values[i], argument));
    }
  });
}

void EncodeBlocks(const Levels& levels, const float* values, int64_t size, int64_t block_size,
                  const unsigned char* scales, unsigned char* codes) {
  const auto encode = [=](auto argument_of, auto code_of) {
    EncodeEachBlock(values, size, block_size, scales, codes, argument_of, code_of);
  };
  const auto steps_per_unit = [=](uint16_t scale) { return levels.StepsPerUnit(scale); };
  if (levels.are_four()) {
    encode([](uint16_t scale) { return Levels::ScaleValue(scale); },
           [](float value, float scale) { return Levels::CodeOfFour(value, scale); });
  } else if (levels.are_square()) {
    encode(steps_per_unit,
           [=](float value, float steps) { return levels.CodeOfSquare(value, steps); });
  } else {
    encode(steps_per_unit,
           [=](float value, float steps) { return levels.CodeOfEven(value, steps); });
  }
}

// Calls use(values + i, value_of(code i, ...)), and says whether all scales are valid.
template <typename ValueOf, typename Use>
bool ForEachBlockDecoded(const Levels& levels, const unsigned char* codes, int64_t size,
                         int64_t block_size, const unsigned char* scales, float* values,
                         ValueOf value_of, Use use) {
  bool all_valid = true;
  Vectorized([=, middle = levels.Middle(), out = &all_valid] {
    const unsigned char* next_scale = scales;
    bool valid = true;
    for (int64_t begin = 0; begin < size; begin += block_size, next_scale += kScaleBytes) {
      const auto scale = LoadUnaligned<uint16_t>(next_scale);
      valid &= Levels::IsScale(scale);
      const float step = levels.Step(scale);
      const int64_t end = begin + SizeOfBlock(begin, size, block_size);
      TFC_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) use(values + i, value_of(codes[i], middle, step));
    }
    *out = valid;
  });
  return all_valid;
}

// Calls use(values + i, what code i decodes to), and says whether all scales are valid.
template <typename Use>
bool ForEachDecoded(const Levels& levels, const unsigned char* codes, int64_t size,
                    int64_t block_size, const unsigned char* scales, float* values, Use use) {
  const auto decode = [&](auto value_of) {
    return ForEachBlockDecoded(levels, codes, size, block_size, scales, values, value_of, use);
  };
  const auto even = [](uint32_t code, float middle, float step) {
    return Levels::ValueOfEven(code, middle, step);
  };
  const auto square = [](uint32_t code, float middle, float step) {
    return Levels::ValueOfSquare(code, middle, step);
  };
  return levels.are_square() ? decode(square) : decode(even);
}

class BlockInt : public ValueCodec {
 public:
  explicit BlockInt(const Params& params)
      : levels_(static_cast<int>(params.Int("bits")),
                static_cast<LevelSpacing>(params.Choice("levels"))),
        block_bits_(Levels::kMinBlockBits + 2 * params.Choice("block")) {}

  ChunkEncoder OpenEncoder(uint32_t k, const CodecContext&, Bytes* out) const override {
    const size_t num_scale_bytes = NumScaleBytes(k, block_bits_);
    ByteWriter writer(out);
    writer.Write(levels_.Byte());
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
      FindScales(levels, values, end - begin, block_size, own_scales);
      EncodeBlocks(levels, values, end - begin, block_size, own_scales, codes);
      chunk.Pack(begin, end, packed);
      if (pending != nullptr) {
        ForEachDecoded(levels, codes, end - begin, block_size, own_scales, pending,
                       [](float* value, float decoded) { *value -= decoded; });
      }
    };
    return {kEncodeChunk, encode};
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
    const auto k = static_cast<int64_t>(values.size());
    Bytes scales(NumScaleBytes(k, block_bits_));
    FindScales(levels_, values.data(), k, int64_t{1} << block_bits_, scales.data());
    for (int64_t i = 0; i < k; ++i) {
      const auto scale = LoadUnaligned<uint16_t>(scales.data() + kScaleBytes * (i >> block_bits_));
      const double half_step = levels_.HalfStep(scale) * (1 + 0x1p-14);
      const double clipped = std::fabs(values[i]) - levels_.Reach(scale);
      errors[i] = half_step + std::max(0.0, clipped) + Levels::ScaleValue(scale) * 0x1p-20;
    }
  }

 private:
  static constexpr uint64_t kHeaderBytes = 2;

  static size_t NumScaleBytes(int64_t k, int block_bits) {
    return static_cast<size_t>(NumBlocks(k, int64_t{1} << block_bits)) * kScaleBytes;
  }

  static Status OpenSection(ByteSpan section, uint32_t k, ChunkDecoder* decoder) {
    ByteReader reader(section);
    uint8_t byte = 0, block_bits = 0;
    TFC_RETURN_IF_ERROR(reader.Read("levels", &byte));
    TFC_RETURN_IF_ERROR(reader.Read("size of a block", &block_bits));
    Levels levels(Levels::kMinBits, LevelSpacing::kEven);
    if (!Levels::Parse(byte, &levels) || block_bits < Levels::kMinBlockBits ||
        block_bits > Levels::kMaxBlockBits) {
      return DataLoss("levels of kind ", int{byte}, " in blocks of 2^", int{block_bits});
    }
    ByteSpan scales, packed;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("scales", NumScaleBytes(k, block_bits), &scales));
    TFC_RETURN_IF_ERROR(ReadCodes(k, levels.num_bits(), &reader, &packed));
    *decoder = [levels, scales, packed, block_bits](int64_t begin, int64_t end, float* values) {
      ByteCodes codes(levels.num_bits());
      const bool valid = ForEachDecoded(levels, codes.Unpack(packed, begin, end), end - begin,
                                        int64_t{1} << block_bits,
                                        scales.data() + kScaleBytes * (begin >> block_bits), values,
                                        [](float* value, float decoded) { *value = decoded; });
      return valid ? OkStatus() : DataLoss("the scale of a block is out of range");
    };
    return OkStatus();
  }

  Levels levels_;
  int block_bits_;
};

}  // namespace

Definition<ValueCodec> BlockIntValue() {
  return {
      "integers times a step of each block, rounded to the nearest (block-scaled integers)",
      {{"bits", ParamKind::kInt, "8", "bits of a value", BlockIntLevels::kMinBits,
        BlockIntLevels::kMaxBits},
       ChoiceParam("block", "256", "values that share a scale", {"16", "64", "256", "1024"}),
       ChoiceParam("levels", "even",
                   "where the magnitudes of levels are, of 3 bits and more: at k / L of the scale "
                   "or at its square, L = 2^(bits - 1) - 1",
                   {"even", "square"})},
      Make<BlockInt>,
      "half the distance of two levels: max of the block / (2^bits - 2), of squares 2 - 1 / L "
      "times that near the max, 1 / L of it near zero; 2 bits: half the root mean square, more "
      "where twice that is exceeded",
      "2 + 2 ceil(k / block) + bits k / 8"};
}

}  // namespace tfcompress
