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
// With a dead zone, level 0 is what is below `least`, and decodes to 0; others are one higher.
struct Quantizer {
  uint16_t least_bits = 0;
  uint16_t step_bits = 0;
  uint8_t center = 128;  // In 1/256.
  uint8_t dead = 0;      // 1 with a dead zone.

  float least() const { return BFloat16ToFloat(least_bits); }
  float step() const { return BFloat16ToFloat(step_bits); }
  // The number of steps that `level` begins at, above `least`.
  float StepsOf(float value) const { return (std::fabs(value) - least()) / step(); }
};

// Overwrites `levels` with those of `count` values.
void FindLevels(const Quantizer& quantizer, const float* values, size_t count, uint32_t* levels) {
  Vectorized([=] {
    const float dead = quantizer.dead;
    TFC_INDEPENDENT
    for (size_t i = 0; i < count; ++i) {
      const float level = std::min(quantizer.StepsOf(values[i]) + dead, float{kMaxLevel});
      levels[i] = static_cast<uint32_t>(static_cast<int32_t>(level));
    }
  });
}

// Decodes `values`, the ranks of levels with their signs: 0 for the dead zone, 1 for the level
// above, or the first one.
void DecodeRanks(const Quantizer& quantizer, Executor* executor, Span<float> values) {
  const auto block = [&](int64_t, int64_t begin, int64_t end) {
    Vectorized([=, x = values.data()] {
      const float least = quantizer.least();
      const float step = quantizer.step();
      const float place = static_cast<float>(quantizer.center) / 256;
      TFC_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        const float steps = std::fabs(x[i]) - 1 + place;
        const float magnitude = std::min(least + steps * step, kLargest);
        x[i] = x[i] == 0 ? 0.0f : std::copysign(magnitude, x[i]);
      }
    });
  };
  ForEachBlock(executor, static_cast<int64_t>(values.size()), block);
}

// The statistics that a quantizer follows from.
struct Range {
  float least = 0;
  float largest = 0;
  double sum_of_squares = 0;

  static Range Of(Span<const float> values, Executor* executor) {
    struct Extremes {
      uint32_t least = kFloatMagnitudeBits;
      uint32_t largest = 0;
    };
    const auto reduce = [&](int64_t begin, int64_t end) {
      Extremes extremes;
      Vectorized([=, x = values.data(), out = &extremes] {
        auto least = static_cast<int32_t>(kFloatMagnitudeBits);
        int32_t largest = 0;
        for (int64_t i = begin; i < end; ++i) {
          const auto bits = static_cast<int32_t>(FloatBits(x[i]) & kFloatMagnitudeBits);
          least = std::min(least, bits);
          largest = std::max(largest, bits);
        }
        *out = {static_cast<uint32_t>(least), static_cast<uint32_t>(largest)};
      });
      return extremes;
    };
    Range range;
    if (values.empty()) return range;
    Extremes all;
    for (const Extremes& part : ReduceBlocks<Extremes>(values.size(), executor, reduce)) {
      all.least = std::min(all.least, part.least);
      all.largest = std::max(all.largest, part.largest);
    }
    range.least = FloatFromBits(all.least);
    range.largest = FloatFromBits(all.largest);
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
    const auto reduce = [&](int64_t begin, int64_t end) {
      Sums sums;
      Vectorized([=, x = values.data(), out = &sums] {
        Sums all;
        int64_t i = begin;
        for (; i + kSumPart <= end; i += kSumPart) all.AddPart(quantizer, x + i);
        if (i < end) {
          // Magnitudes at the beginning of a level add nothing but to its count.
          float rest[kSumPart];
          std::fill(std::copy(x + i, x + end, rest), rest + kSumPart, quantizer.least());
          all.AddPart(quantizer, rest);
          all.live -= static_cast<double>(i + kSumPart - end);
        }
        *out = all;
      });
      return sums;
    };
    Sums all;
    for (const Sums& sums : ReduceBlocks<Sums>(values.size(), executor, reduce)) {
      all.live += sums.live;
      all.places += sums.places;
      all.squares += sums.squares;
      all.dead_squares += sums.dead_squares;
    }
    const double step = quantizer.step();
    Fit fit;
    const double mean = std::clamp(all.live > 0 ? all.places / all.live : 0.5, 0.0, 255.0 / 256);
    fit.center = static_cast<uint8_t>(mean * 256);
    const double center = fit.center / 256.0;
    const double live_error = all.squares - 2 * center * all.places + center * center * all.live;
    fit.squared_error = (live_error + all.dead_squares) * step * step;
    return fit;
  }

 private:
  // In steps.
  struct Sums {
    double live = 0;  // Values outside of the dead zone.
    double places = 0;
    double squares = 0;
    double dead_squares = 0;

    // Sums by lanes, which are a vector's, and parts that are short enough for float.
    void AddPart(const Quantizer& quantizer, const float* values) {
      constexpr int kLanes = 16;
      typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
      typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));
      const float per_step = 1 / quantizer.step();
      const float least = quantizer.least();
      Floats sums[4] = {};
      for (int64_t i = 0; i < kSumPart; i += kLanes) {
        Ints bits;
        std::memcpy(&bits, values + i, sizeof(bits));
        bits &= kFloatMagnitudeBits;
        Floats magnitude;
        std::memcpy(&magnitude, &bits, sizeof(bits));
        const Floats steps = (magnitude - least) * per_step;
        const Floats whole = __builtin_convertvector(__builtin_convertvector(steps, Ints), Floats);
        const Floats live = -__builtin_convertvector(steps >= 0, Floats);
        const Floats place = (steps - whole) * live;
        const Floats dead_steps = magnitude * per_step * (1 - live);
        sums[0] += live;
        sums[1] += place;
        sums[2] += place * place;
        sums[3] += dead_steps * dead_steps;
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        live += sums[0][lane];
        places += sums[1][lane];
        squares += sums[2][lane];
        dead_squares += sums[3][lane];
      }
    }
  };
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
  explicit Ecsq(double snr) : relative_error_(std::pow(10.0, -snr / 10)) {}

  Status Encode(Span<const float> values, const Support& support, const CodecContext& context,
                Bytes* out) const override {
    const Quantizer quantizer = Choose(values, context.executor);
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
            FindLevels(quantizer, values.data() + i, count, chunk.data());
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
    Quantizer quantizer;
    TFC_RETURN_IF_ERROR(reader.Read("least magnitude", &quantizer.least_bits));
    TFC_RETURN_IF_ERROR(reader.Read("step", &quantizer.step_bits));
    TFC_RETURN_IF_ERROR(reader.Read("center", &quantizer.center));
    quantizer.dead = static_cast<uint8_t>(quantizer.least_bits >> kDeadBit);
    quantizer.least_bits &= (1 << kDeadBit) - 1;
    if (!(quantizer.least() <= kLargest) ||
        !(quantizer.step() >= kLeastStep && quantizer.step() <= kLargest))
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
    DecodeRanks(quantizer, context.executor, values);
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
    const Range range = Range::Of(values, SerialExecutor());
    const double step = std::max(kMostGrowth * FirstStep(range, values.size()), LeastStep(range));
    for (size_t i = 0; i < values.size(); ++i)
      errors[i] = step * (1 + 0x1p-7) + std::fabs(values[i]) * 0x1p-22;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 5;
  static constexpr int kDeadBit = 15;  // Of the field of the least magnitude.
  static constexpr size_t kLevelChunk = 1024;
  // Fewer elements do not pay for their contexts.
  static constexpr size_t kLeastContextElements = 64;
  // Values from this share of the root of their mean square on have no dead zone: they were
  // selected, and are not worth an index otherwise.
  static constexpr double kLeastShare = 1.0 / 8;
  // The dead zone on each side, in steps: near the best for Laplace's and Gauss's distributions,
  // from 3 dB on.
  static constexpr double kDeadSteps = 0.6;
  static constexpr double kMostGrowth = 2;
  static constexpr size_t kSampled = 8192;
  static constexpr int kNumTrials = 8;
  static constexpr double kCaution = 0.999;
  static constexpr double kNear = 0.995;  // Of the error that is asked for.

  // The step of uniformly distributed errors.
  double FirstStep(const Range& range, size_t k) const {
    return std::sqrt(12 * relative_error_ * range.sum_of_squares / std::max<size_t>(k, 1));
  }
  // What the largest level needs.
  static double LeastStep(const Range& range) {
    return std::max(double{kLeastStep}, double{range.largest} / (kMaxLevel - 2));
  }

  // The longest step that was found to keep the error, in a few trials: with some of the values,
  // then with all.
  Quantizer Choose(Span<const float> values, Executor* executor) const {
    const Range range = Range::Of(values, executor);
    const double first_step = FirstStep(range, values.size());
    const uint16_t least_step = CeilToBFloat16(static_cast<float>(LeastStep(range)));
    const double root_mean_square =
        std::sqrt(range.sum_of_squares / std::max<size_t>(values.size(), 1));
    const bool selected = range.least >= kLeastShare * root_mean_square;
    const auto with_step = [&](double step) {
      Quantizer quantizer;
      const auto narrow = static_cast<float>(std::min<double>(step, kLargest));
      quantizer.step_bits = std::max(least_step, FloorToBFloat16(narrow));
      const auto dead = static_cast<float>(kDeadSteps * quantizer.step());
      quantizer.dead = !selected && range.least < dead;
      const float least = quantizer.dead ? dead : range.least;
      if (least >= kLeastStep) quantizer.least_bits = FloorToBFloat16(least);
      return quantizer;
    };

    // The longest step that was found to keep the error of `some` values, from `step` on.
    const auto search = [&](double step, Span<const float> some, int num_trials) {
      const double share = static_cast<double>(some.size()) / std::max<size_t>(values.size(), 1);
      const double most_error = relative_error_ * range.sum_of_squares * share;
      Quantizer best;
      bool best_keeps = false;
      for (int i = 0; i < num_trials; ++i) {
        Quantizer trial = with_step(step);
        const Fit fit = Fit::Of(trial, some, executor);
        trial.center = fit.center;
        const bool keeps = fit.squared_error <= most_error;
        const bool is_better =
            keeps ? !best_keeps || trial.step_bits > best.step_bits : !best_keeps;
        if (is_better) best = trial;
        best_keeps |= keeps;
        const bool is_near = keeps && fit.squared_error >= kNear * most_error;
        if (is_near || fit.squared_error == 0) break;
        step *= kCaution * std::sqrt(most_error / fit.squared_error);
        step = std::min(step, kMostGrowth * first_step);
      }
      return best;
    };
    if (values.size() <= kSampled) return search(first_step, values, kNumTrials);
    std::vector<float> sample(kSampled);
    const size_t stride = values.size() / kSampled;
    for (size_t i = 0; i < kSampled; ++i) sample[i] = values[i * stride];
    constexpr int kNumChecks = 3;
    return search(search(first_step, sample, kNumTrials).step(), values, kNumChecks);
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
