// ecsq: entropy-coded scalar quantization. Magnitudes above the least one fall into steps of one
// width; the steps' numbers, the levels, and the signs are coded by adaptive models in the context
// of their rows and columns: magnitudes are larger where a row and a column have many elements, and
// signs are those of an outer product.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/byte_io.h"
#include "core/entropy/parts.h"
#include "core/entropy/rans.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/ecsq_quantizer.h"
#include "core/value/grid_contexts.h"

namespace tfcompress {
namespace {

// Models of levels, by the classes of rows and columns; without a grid, there is one.
class LevelModels {
 public:
  LevelModels(const Grid& grid, const Support& support) {
    models_.fill(NibbleModel::Geometric(kRatio, kWeight));
    if (grid.known()) classes_ = GridClasses::Of(grid, NumSpanned(support), support);
  }

  NibbleModel* Of(uint32_t row, uint32_t column) {
    if (classes_.rows.empty()) return &models_[0];
    return &models_[classes_.rows[row] + classes_.columns[column]];
  }

 private:
  static constexpr uint32_t kRatio = 192;
  static constexpr uint32_t kWeight = 4;

  GridClasses classes_;
  std::array<NibbleModel, 2 * kNumCountClasses - 1> models_;
};

// Levels of 15 and more: the length of what is above, then its bits.

void PutLevel(uint32_t level, NibbleModel* levels, NibbleModel* lengths, RansEncoder* coder) {
  if (level < NibbleModel::kLast) return coder->Put(static_cast<int>(level), levels);
  coder->Put(NibbleModel::kLast, levels);
  const uint32_t above = level - NibbleModel::kLast + 1;
  const int num_bits = 31 - __builtin_clz(above);
  coder->Put(num_bits, lengths);
  coder->PutBits(above - (1u << num_bits), num_bits);
}

uint32_t GetLevel(NibbleModel* levels, NibbleModel* lengths, RansDecoder* coder) {
  const int symbol = coder->Get(levels);
  if (symbol < NibbleModel::kLast) return static_cast<uint32_t>(symbol);
  const int num_bits = coder->Get(lengths);
  return NibbleModel::kLast - 1 + (1u << num_bits) + coder->GetBits(num_bits);
}

// Appends the code of a part's values.
void PutPart(Span<const float> values, const EcsqQuantizer& quantizer, const SupportPart& part,
             Bytes* out) {
  constexpr size_t kLevelChunk = 1024;
  RansEncoder coder(out);
  const Grid grid = ContextGrid(part.grid, part.support);
  PutGrid(grid, &coder);
  NibbleModel lengths;
  std::array<uint32_t, kLevelChunk> chunk;
  const uint32_t dead = quantizer.dead;
  RansEncoder local = coder;  // Which a compiler keeps in registers.
  LevelModels levels(grid, part.support);
  const auto put = [&](size_t i, uint32_t row, uint32_t column, BitModel* signs, bool expected) {
    if (i % kLevelChunk == 0) {
      const size_t count = std::min(kLevelChunk, values.size() - i);
      quantizer.FindLevels(values.data() + i, count, chunk.data());
    }
    const uint32_t level = chunk[i % kLevelChunk];
    PutLevel(level, levels.Of(row, column), &lengths, &local);
    if (level < dead) return 0;
    const bool negative = values[i] < 0;
    local.Put(negative != expected, signs);
    return 1 - 2 * negative;
  };
  ForEachInContext(grid, part.support, put);
  coder = local;
  coder.Finish(RansLanes(values.size()));
}

// Decodes the ranks of a part's values, with their signs: 0 in the dead zone, else from 1 on.
Status GetPart(ByteSpan code, int dead, const Support& support, Span<float> ranks) {
  RansDecoder coder(RansLanes(ranks.size()), code);
  Grid grid;
  TFC_RETURN_IF_ERROR(GetGrid("ecsq", support, &coder, &grid));
  float* const next = ranks.data();
  NibbleModel lengths;
  RansDecoder local = coder;  // Which a compiler keeps in registers.
  LevelModels levels(grid, support);
  const auto get = [&](size_t i, uint32_t row, uint32_t column, BitModel* signs, bool expected) {
    const uint32_t level = GetLevel(levels.Of(row, column), &lengths, &local);
    const auto rank = static_cast<float>(static_cast<int>(level) + 1 - dead);
    next[i] = rank;
    if (rank == 0) return 0;
    // Sets the bit of the sign without a branch, which could not be foretold.
    const uint32_t negative =
        static_cast<uint32_t>(local.Get(signs)) ^ static_cast<uint32_t>(expected);
    next[i] = FloatFromBits(FloatBits(rank) | negative << 31);
    return 1 - 2 * static_cast<int>(negative);
  };
  ForEachInContext(grid, support, get);
  coder = local;
  return coder.ExpectEnd("ecsq");
}

class Ecsq : public ValueCodec {
 public:
  explicit Ecsq(const Params& params) : search_(std::pow(10.0, -params.Float("snr") / 10)) {}

  Status Encode(Span<const float> values, const Support& support, const CodecContext& context,
                Bytes* out) const override {
    Put(values, support, context, out);
    return OkStatus();
  }

  Status EncodeAndDecode(Span<const float> values, const Support& support,
                         const CodecContext& context, Bytes* out,
                         Span<float> decoded) const override {
    Put(values, support, context, out).Round(values, context.executor, decoded);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support& support, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    EcsqQuantizer quantizer;
    TFC_RETURN_IF_ERROR(reader.Read("least magnitude", &quantizer.least_bits));
    TFC_RETURN_IF_ERROR(reader.Read("step", &quantizer.step_bits));
    TFC_RETURN_IF_ERROR(reader.Read("center", &quantizer.center));
    quantizer.dead = static_cast<uint8_t>(quantizer.least_bits >> kDeadBit);
    quantizer.least_bits &= (1 << kDeadBit) - 1;
    if (!quantizer.IsValid())
      return DataLoss("ecsq: steps of ", quantizer.step(), " from ", quantizer.least(), " on");
    const auto decode = [&](int64_t, int64_t begin, int64_t end, ByteSpan code) {
      return GetPart(code, quantizer.dead, SupportPart::Of(support, {}, begin, end).support,
                     values.subspan(begin, end - begin));
    };
    TFC_RETURN_IF_ERROR(DecodeParts("ecsq", values.size(), context.executor, &reader, decode));
    quantizer.DecodeRanks(context.executor, values);
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    const uint64_t num_parts = NumParts(k);
    return kHeaderBytes + (num_parts - 1) * sizeof(uint32_t) +
           std::max<uint64_t>(num_parts * sizeof(uint32_t), NibbleModel::MinBytes(k));
  }
  // Of a value: two symbols and a sign, of at most 12 bits, and 15 bits of a large level.
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + 64 * NumParts(k) + uint64_t{7} * k;
  }

  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  // A step, and rounding.
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    const double step = search_.MostStep(values);
    for (size_t i = 0; i < values.size(); ++i)
      errors[i] = step * (1 + 0x1p-7) + std::fabs(values[i]) * 0x1p-22;
  }

 private:
  // Appends the section, and returns its quantizer.
  EcsqQuantizer Put(Span<const float> values, const Support& support, const CodecContext& context,
                    Bytes* out) const {
    const EcsqQuantizer quantizer = search_.Choose(values, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint16_t>(quantizer.least_bits | quantizer.dead << kDeadBit));
    writer.Write(quantizer.step_bits);
    writer.Write(quantizer.center);
    const auto put = [&](int64_t, int64_t begin, int64_t end, Bytes* part) {
      PutPart(values.subspan(begin, end - begin), quantizer,
              SupportPart::Of(support, context.grid, begin, end), part);
    };
    EncodeParts(values.size(), context.executor, put, out);
    return quantizer;
  }

  static constexpr uint64_t kHeaderBytes = 5;
  static constexpr int kDeadBit = 15;  // Of the field of the least magnitude.

  EcsqSearch search_;
};

}  // namespace

Definition<ValueCodec> EcsqValue() {
  return {"entropy-coded scalar quantization, in the context of rows and columns",
          {{"snr", ParamKind::kFloat, "25", "signal-to-noise ratio in dB", 3, 60}},
          Make<Ecsq>,
          "a relative l2 error of 10^(-snr / 20)",
          "the entropy of levels and signs, by the data"};
}

}  // namespace tfcompress
