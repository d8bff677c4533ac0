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
#include "core/float_order.h"
#include "core/grid.h"
#include "core/half.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/block_statistics.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxLevel = 1u << 15;
// Bounds of what is not zero, so that no quotient overflows.
constexpr float kLeastStep = 0x1p-100f;
constexpr float kLargest = 0x1.fep127f;

uint16_t FloorToBFloat16(float value) { return static_cast<uint16_t>(FloatBits(value) >> 16); }
uint16_t CeilToBFloat16(float value) {
  return static_cast<uint16_t>((FloatBits(value) + 0xFFFF) >> 16);
}

// Level l stands for magnitudes from least + l step on, and decodes to least + (l + center) step.
struct Quantizer {
  uint16_t least_bits;
  uint16_t step_bits;
  uint8_t center = 128;  // In 1/256.

  float least() const { return BFloat16ToFloat(least_bits); }
  float step() const { return BFloat16ToFloat(step_bits); }
  uint32_t LevelOf(float value) const {
    const float level = (std::fabs(value) - least()) / step();
    return static_cast<uint32_t>(std::min(level, static_cast<float>(kMaxLevel)));
  }
  // Where in its step a magnitude is.
  float PlaceOf(float value) const {
    const float level = (std::fabs(value) - least()) / step();
    return level -
           static_cast<float>(static_cast<int32_t>(std::min(level, static_cast<float>(kMaxLevel))));
  }
  float MagnitudeOf(uint32_t level) const {
    const float steps = static_cast<float>(level) + static_cast<float>(center) / 256;
    return std::min(least() + steps * step(), kLargest);
  }
};

// The statistics that a quantizer follows from.
struct Range {
  float least = 0;
  float largest = 0;
  double sum_of_squares = 0;

  static Range Of(Span<const float> values, Executor* executor) {
    Range range;
    if (values.empty()) return range;
    range.least = std::fabs(values[0]);
    for (const float value : values) {
      range.least = std::min(range.least, std::fabs(value));
      range.largest = std::max(range.largest, std::fabs(value));
    }
    range.sum_of_squares = SumOverBlocks(values.size(), executor,
                                         [&](int64_t i) { return double{values[i]} * values[i]; });
    return range;
  }
};

// Sum of squared errors, and the mean place of magnitudes in their steps, for the best center.
struct Fit {
  double squared_error = 0;
  uint8_t center = 128;

  static Fit Of(const Quantizer& quantizer, Span<const float> values, Executor* executor) {
    struct Sums {
      double places = 0;
      double squares = 0;
    };
    const auto reduce = [&](int64_t begin, int64_t end) {
      Sums sums;
      Vectorized([=, x = values.data(), out = &sums] {
        Sums all;
        const auto place = [=](int64_t i) { return double{quantizer.PlaceOf(x[i])}; };
        for (int64_t part = begin; part < end; part += kSumPart) {
          const int64_t part_end = std::min(end, part + kSumPart);
          all.places += SumTerms(part, part_end, place);
          all.squares += SumTerms(part, part_end, [=](int64_t i) { return place(i) * place(i); });
        }
        *out = all;
      });
      return sums;
    };
    const auto k = static_cast<double>(values.size());
    double sum = 0, squares = 0;
    for (const Sums& sums : ReduceBlocks<Sums>(values.size(), executor, reduce)) {
      sum += sums.places;
      squares += sums.squares;
    }
    const double step = quantizer.step();
    Fit fit;
    const double mean = std::clamp(sum / k, 0.0, 255.0 / 256);
    fit.center = static_cast<uint8_t>(mean * 256);
    const double center = fit.center / 256.0;
    fit.squared_error = (squares - 2 * center * sum + center * center * k) * step * step;
    return fit;
  }
};

// Elements up to the last of a support.
uint32_t NumSpanned(const Support& support) {
  return support.size() == 0 ? 0 : support[support.size() - 1] + 1;
}

// Level and sign of the values, in the context of rows and columns.
class Contexts {
 public:
  // Without a grid, there is one context.
  Contexts(const Grid& grid, const Support& support) : grid_(grid) {
    levels_.fill(NibbleModel::Geometric(kLevelRatio));
    if (!grid.known()) return;
    classes_ = GridClasses::Of(grid, NumSpanned(support), support);
    column_signs_.resize(grid.width);
  }

  // Calls code(i, level model, sign context) for each element, which returns the sign: whether it
  // is negative.
  template <typename Code>
  void ForEach(const Support& support, const Code& code) {
    if (!grid_.known()) {
      for (size_t i = 0; i < support.size(); ++i) code(i, &levels_[0], &signs_[0], false);
      return;
    }
    uint32_t current = 0;
    ForEachCell(grid_, support, [&](size_t i, uint32_t row, uint32_t column) {
      if (row != current) FinishRow();
      current = row;
      int& column_sign = column_signs_[column];
      const int64_t vote = int64_t{row_sign_} * column_sign;
      const int strength = (vote != 0) + (std::abs(vote) > kWeakVote);
      const bool negative = code(i, &levels_[classes_.rows[row] + classes_.columns[column]],
                                 &signs_[strength], vote < 0);
      const int sign = negative ? -1 : 1;
      row_sign_ += column_sign > 0 ? sign : column_sign < 0 ? -sign : 0;
      row_.push_back({column, sign});
    });
  }

 private:
  struct Element {
    uint32_t column;
    int sign;
  };
  static constexpr uint32_t kLevelRatio = 192;
  static constexpr int kWeakVote = 4;

  // Adds the row to the columns' signs, turned so that it agrees with them.
  void FinishRow() {
    for (const Element& element : row_)
      column_signs_[element.column] += row_sign_ < 0 ? -element.sign : element.sign;
    row_.clear();
    row_sign_ = 0;
  }

  Grid grid_;
  GridClasses classes_;
  std::array<NibbleModel, 2 * kNumCountClasses - 1> levels_;
  // Whether a sign is as expected, by the strength of the vote.
  std::array<BitModel, 3> signs_;
  std::vector<int> column_signs_;
  std::vector<Element> row_;
  int row_sign_ = 0;  // How the row so far agrees with the columns.
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
  explicit Ecsq(double snr) : relative_error_(std::pow(10.0, -snr / 10)) {}

  Status Encode(Span<const float> values, const Support& support, const CodecContext& context,
                Bytes* out) const override {
    const Quantizer quantizer = Choose(values, context.executor);
    ByteWriter writer(out);
    writer.Write(quantizer.least_bits);
    writer.Write(quantizer.step_bits);
    writer.Write(quantizer.center);
    RansEncoder coder;
    Grid grid;
    if (support.size() >= kLeastContextElements && context.grid.width <= NumSpanned(support))
      grid = context.grid;
    coder.PutNumber(grid.width);
    coder.PutNumber(grid.first_column);
    NibbleModel lengths;
    Contexts(grid, support)
        .ForEach(support, [&](size_t i, NibbleModel* levels, BitModel* signs, bool expected) {
          PutLevel(quantizer.LevelOf(values[i]), levels, &lengths, &coder);
          const bool negative = values[i] < 0;
          coder.Put(negative != expected, signs);
          return negative;
        });
    coder.Finish(out);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support& support, const CodecContext&,
                Span<float> values) const override {
    ByteReader reader(section);
    Quantizer quantizer{};
    TFC_RETURN_IF_ERROR(reader.Read("least magnitude", &quantizer.least_bits));
    TFC_RETURN_IF_ERROR(reader.Read("step", &quantizer.step_bits));
    TFC_RETURN_IF_ERROR(reader.Read("center", &quantizer.center));
    if (!(quantizer.least() >= 0 && quantizer.least() <= kLargest) ||
        !(quantizer.step() >= kLeastStep && quantizer.step() <= kLargest))
      return DataLoss("ecsq: steps of ", quantizer.step(), " from ", quantizer.least(), " on");
    ByteSpan code;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("code", reader.remaining(), &code));
    RansDecoder coder(code);
    Grid grid;
    grid.width = coder.GetNumber();
    grid.first_column = coder.GetNumber();
    if (grid.width > NumSpanned(support) || (grid.known() && grid.first_column >= grid.width))
      return DataLoss("ecsq: ", grid.width, " columns of ", NumSpanned(support), " elements");
    NibbleModel lengths;
    Contexts(grid, support)
        .ForEach(support, [&](size_t i, NibbleModel* levels, BitModel* signs, bool expected) {
          const float magnitude = quantizer.MagnitudeOf(GetLevel(levels, &lengths, &coder));
          const bool negative = (coder.Get(signs) != 0) != expected;
          values[i] = negative ? -magnitude : magnitude;
          return negative;
        });
    return coder.ExpectEnd("ecsq");
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + std::max<uint64_t>(sizeof(uint32_t), NibbleModel::MinBytes(k));
  }
  // Of a value: two symbols and a sign, of at most 12 bits, and 15 bits of a large level.
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + 24 + uint64_t{7} * k;
  }

  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  // A step, and rounding.
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    const Range range = Range::Of(values, SerialExecutor());
    const double step = std::max(kMostGrowth * FirstStep(range, values.size()), LeastStep(range));
    for (size_t i = 0; i < values.size(); ++i)
      errors[i] = step * (1 + 0x1p-7) + std::fabs(values[i]) * 0x1p-22;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 5;
  static constexpr double kMostGrowth = 2;
  static constexpr int kNumTrials = 3;
  static constexpr double kCaution = 0.99;
  // Fewer elements do not pay for their contexts.
  static constexpr size_t kLeastContextElements = 64;

  // The step of uniformly distributed errors.
  double FirstStep(const Range& range, size_t k) const {
    return std::sqrt(12 * relative_error_ * range.sum_of_squares / std::max<size_t>(k, 1));
  }
  // What the largest level needs.
  static double LeastStep(const Range& range) {
    return std::max(double{kLeastStep}, double{range.largest} / (kMaxLevel - 1));
  }

  // The longest step that was found to keep the error, in a few trials.
  Quantizer Choose(Span<const float> values, Executor* executor) const {
    const Range range = Range::Of(values, executor);
    Quantizer trial{};
    if (range.least >= kLeastStep) trial.least_bits = FloorToBFloat16(range.least);
    const uint16_t least_step = CeilToBFloat16(static_cast<float>(LeastStep(range)));
    const double first_step = FirstStep(range, values.size());
    const double most_error = relative_error_ * range.sum_of_squares;
    Quantizer best{};
    bool best_keeps = false;
    double step = first_step;
    for (int i = 0; i < kNumTrials; ++i) {
      const float narrow = static_cast<float>(std::min<double>(step, kLargest));
      trial.step_bits = std::max(least_step, FloorToBFloat16(narrow));
      const Fit fit = Fit::Of(trial, values, executor);
      trial.center = fit.center;
      const bool keeps = fit.squared_error <= most_error;
      const bool is_better = keeps ? !best_keeps || trial.step_bits > best.step_bits : !best_keeps;
      if (is_better) best = trial;
      best_keeps |= keeps;
      if (values.empty() || fit.squared_error == 0) break;
      step *= kCaution * std::sqrt(most_error / fit.squared_error);
      step = std::min(step, kMostGrowth * first_step);
    }
    return best;
  }

  double relative_error_;  // Squared.
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
