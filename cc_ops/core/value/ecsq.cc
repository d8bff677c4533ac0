// ecsq: entropy-coded scalar quantization. Magnitudes above the least one fall into steps of one
// width; the steps' numbers, the levels, and the signs are coded by adaptive models in the context
// of their rows and columns: magnitudes are larger where a row and a column have many elements, and
// signs are those of an outer product.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "core/byte_io.h"
#include "core/entropy/rans.h"
#include "core/grid.h"
#include "core/registry.h"
#include "core/value/ecsq_quantizer.h"

namespace tfcompress {
namespace {

// Elements up to the last of a support.
uint32_t NumSpanned(const Support& support) {
  return support.size() == 0 ? 0 : support[support.size() - 1] + 1;
}

// Level and sign of the values, in the context of rows and columns.
class Contexts {
 public:
  // Without a grid, there is one context.
  Contexts(const Grid& grid, const Support& support) : grid_(grid) {
    levels_.fill(NibbleModel::Geometric(kLevelRatio, kLevelWeight));
    if (!grid.known()) return;
    classes_ = GridClasses::Of(grid, NumSpanned(support), support);
    columns_.resize(grid.width);
  }

  // Calls code(i, level model, sign model, whether a negative sign is expected) for each element,
  // which returns the sign: -1, 0 or 1.
  template <typename Code>
  void ForEach(const Support& support, const Code& code) {
    if (!grid_.known()) {
      for (size_t i = 0; i < support.size(); ++i) code(i, &levels_[0], &signs_[0], false);
      return;
    }
    std::vector<Element> row(std::min<size_t>(grid_.width, support.size()));
    size_t num_in_row = 0;
    int agreement = 0;  // Of the row so far with the columns.
    uint32_t current = 0;
    ForEachCell(grid_, support, [&](size_t i, uint32_t row_index, uint32_t column) {
      if (row_index != current) {
        // Adds the row to the columns' signs, turned so that it agrees with them.
        const int turn = agreement < 0 ? -1 : 1;
        for (size_t j = 0; j < num_in_row; ++j) columns_[row[j].column] += turn * row[j].sign;
        num_in_row = 0;
        agreement = 0;
        current = row_index;
      }
      const int column_sign = columns_[column];
      const int64_t vote = int64_t{agreement} * column_sign;
      const int strength = (vote != 0) + (std::abs(vote) > kWeakVote);
      const int sign = code(i, &levels_[classes_.rows[row_index] + classes_.columns[column]],
                            &signs_[strength], vote < 0);
      agreement += ((column_sign > 0) - (column_sign < 0)) * sign;
      row[num_in_row++] = {column, sign};
    });
  }

 private:
  struct Element {
    uint32_t column;
    int sign;
  };
  static constexpr uint32_t kLevelRatio = 192;
  static constexpr uint32_t kLevelWeight = 4;
  static constexpr int kWeakVote = 4;

  Grid grid_;
  GridClasses classes_;
  std::array<NibbleModel, 2 * kNumCountClasses - 1> levels_;
  // Whether a sign is as expected, by the strength of the vote.
  std::array<BitModel, 3> signs_;
  std::vector<int> columns_;  // Sums of signs.
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

class Ecsq : public ValueCodec {
 public:
  explicit Ecsq(double snr) : search_(std::pow(10.0, -snr / 10)) {}

  Status Encode(Span<const float> values, const Support& support, const CodecContext& context,
                Bytes* out) const override {
    const EcsqQuantizer quantizer = search_.Choose(values, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint16_t>(quantizer.least_bits | quantizer.dead << kDeadBit));
    writer.Write(quantizer.step_bits);
    writer.Write(quantizer.center);
    RansEncoder coder(out);
    Grid grid;
    if (support.size() >= kLeastContextElements && context.grid.width <= NumSpanned(support))
      grid = context.grid;
    coder.PutNumber(grid.width);
    coder.PutNumber(grid.first_column);
    NibbleModel lengths;
    std::array<uint32_t, kLevelChunk> chunk;
    Contexts(grid, support)
        .ForEach(support, [&](size_t i, NibbleModel* levels, BitModel* signs, bool expected) {
          if (i % kLevelChunk == 0) {
            const size_t count = std::min(kLevelChunk, values.size() - i);
            quantizer.FindLevels(values.data() + i, count, chunk.data());
          }
          const uint32_t level = chunk[i % kLevelChunk];
          PutLevel(level, levels, &lengths, &coder);
          if (level < quantizer.dead) return 0;
          const bool negative = values[i] < 0;
          coder.Put(negative != expected, signs);
          return 1 - 2 * negative;
        });
    coder.Finish(RansLanes(values.size()));
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
    ByteSpan code;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("code", reader.remaining(), &code));
    RansDecoder coder(RansLanes(values.size()), code);
    Grid grid;
    grid.width = coder.GetNumber();
    grid.first_column = coder.GetNumber();
    if (grid.width > NumSpanned(support) || (grid.known() && grid.first_column >= grid.width))
      return DataLoss("ecsq: ", grid.width, " columns of ", NumSpanned(support), " elements");
    float* const ranks = values.data();
    const int dead = quantizer.dead;
    NibbleModel lengths;
    RansDecoder local = coder;  // Which a compiler keeps in registers.
    Contexts(grid, support)
        .ForEach(support, [&](size_t i, NibbleModel* levels, BitModel* signs, bool expected) {
          const uint32_t level = GetLevel(levels, &lengths, &local);
          const auto rank = static_cast<int>(level) + 1 - dead;
          int sign = 0;
          if (rank > 0) sign = 1 - 2 * ((local.Get(signs) != 0) != expected);
          ranks[i] = static_cast<float>(sign * rank);
          return sign;
        });
    coder = local;
    quantizer.DecodeRanks(context.executor, values);
    return coder.ExpectEnd("ecsq");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + std::max<uint64_t>(sizeof(uint32_t), NibbleModel::MinBytes(k));
  }
  // Of a value: two symbols and a sign, of at most 12 bits, and 15 bits of a large level.
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + 64 + uint64_t{7} * k;
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
  static constexpr uint64_t kHeaderBytes = 5;
  static constexpr int kDeadBit = 15;  // Of the field of the least magnitude.
  static constexpr size_t kLevelChunk = 1024;
  // Fewer elements do not pay for their contexts.
  static constexpr size_t kLeastContextElements = 64;

  EcsqSearch search_;
};

}  // namespace

Definition<ValueCodec> EcsqValue() {
  return {"entropy-coded scalar quantization, in the context of rows and columns",
          {{"snr", ParamKind::kFloat, "25", "signal-to-noise ratio in dB", 3, 60}},
          [](const Params& params) -> std::unique_ptr<const ValueCodec> {
            return std::make_unique<Ecsq>(params.Float("snr"));
          },
          "a relative l2 error of 10^(-snr / 20)",
          "the entropy of levels and signs, by the data"};
}

}  // namespace tfcompress
