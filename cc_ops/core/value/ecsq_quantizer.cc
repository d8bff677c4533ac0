#include "core/value/ecsq_quantizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/float_order.h"
#include "core/simd.h"
#include "core/value/block_statistics.h"

namespace tfcompress {
namespace {

constexpr int32_t kMaxLevel = 1 << 15;
// Bounds of what is not zero, so that no quotient overflows.
constexpr float kLeastStep = 0x1p-100f;
constexpr float kLargest = 0x1.fep127f;

uint16_t FloorToBFloat16(float value) { return static_cast<uint16_t>(FloatBits(value) >> 16); }
uint16_t CeilToBFloat16(float value) {
  return static_cast<uint16_t>((FloatBits(value) + 0xFFFF) >> 16);
}

// Values from this share of the root of their mean square on have no dead zone: they were
// selected, and are not worth an index otherwise.
constexpr double kLeastShare = 1.0 / 8;
// The dead zone on each side, in steps: near the best for Laplace's and Gauss's distributions,
// from 3 dB on.
constexpr double kDeadSteps = 0.6;
// No step is longer than so many of uniformly distributed errors.
constexpr double kMostGrowth = 2;
// Values that the first trials look at.
constexpr size_t kSampled = 8192;
constexpr int kNumTrials = 8;
constexpr double kCaution = 0.999;
constexpr double kNear = 0.995;  // Of the error that is asked for.

// The statistics that a quantizer follows from.
struct Range {
  float least = 0;
  float largest = 0;
  double sum_of_squares = 0;

  static Range Of(Span<const float> values, Executor* executor) {
    Range range;
    if (values.empty()) return range;
    const auto bits = KeyRangeOf(values, executor, [](float value) {
      return static_cast<int32_t>(MagnitudeBits(value));  // What every vector unit compares.
    });
    range.least = FloatFromBits(static_cast<uint32_t>(bits.least));
    range.largest = FloatFromBits(static_cast<uint32_t>(bits.largest));
    range.sum_of_squares = SumOverBlocks(values.size(), executor,
                                         [&](int64_t i) { return double{values[i]} * values[i]; });
    return range;
  }
};

// Sum of squared errors, and the mean place of magnitudes in their steps, for the best center.
struct Fit {
  double squared_error = 0;
  uint8_t center = 128;

  static Fit Of(const EcsqQuantizer& quantizer, Span<const float> values, Executor* executor) {
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
    void AddPart(const EcsqQuantizer& quantizer, const float* values) {
      constexpr int kLanes = 16;
      // Compilers compare vectors that are longer than the processor's element by element.
      constexpr int kWidth = 8;
      typedef float Floats __attribute__((vector_size(kWidth * sizeof(float))));
      typedef int32_t Ints __attribute__((vector_size(kWidth * sizeof(int32_t))));
      const float per_step = 1 / quantizer.step();
      const float least = quantizer.least();
      for (int lane = 0; lane < kLanes; lane += kWidth) {
        Floats sums[4] = {};
        for (int64_t i = lane; i < kSumPart; i += kLanes) {
          Ints bits;
          std::memcpy(&bits, values + i, sizeof(bits));
          bits &= kFloatMagnitudeBits;
          Floats magnitude;
          std::memcpy(&magnitude, &bits, sizeof(bits));
          const Floats steps = (magnitude - least) * per_step;
          const Floats whole =
              __builtin_convertvector(__builtin_convertvector(steps, Ints), Floats);
          const Floats live = -__builtin_convertvector(steps >= 0, Floats);
          const Floats place = (steps - whole) * live;
          const Floats dead_steps = magnitude * per_step * (1 - live);
          sums[0] += live;
          sums[1] += place;
          sums[2] += place * place;
          sums[3] += dead_steps * dead_steps;
        }
        for (int j = 0; j < kWidth; ++j) {
          live += sums[0][j];
          places += sums[1][j];
          squares += sums[2][j];
          dead_squares += sums[3][j];
        }
      }
    }
  };
};

// What the levels of a quantizer follow from, copied, so that no store makes it be loaded again.
class LevelFinder {
 public:
  explicit LevelFinder(const EcsqQuantizer& quantizer)
      : least_(quantizer.least()), step_(quantizer.step()), dead_(quantizer.dead) {}

  int32_t LevelOf(float value) const {
    const float steps = (std::fabs(value) - least_) / step_;
    return static_cast<int32_t>(std::min(steps + dead_, float{kMaxLevel}));
  }

 private:
  float least_;
  float step_;
  float dead_;
};

// The step of uniformly distributed errors.
double FirstStep(const Range& range, double relative_error, size_t k) {
  return std::sqrt(12 * relative_error * range.sum_of_squares / std::max<size_t>(k, 1));
}
// What the largest level needs.
double LeastStep(const Range& range) {
  return std::max(double{kLeastStep}, double{range.largest} / (kMaxLevel - 2));
}

}  // namespace

bool EcsqQuantizer::IsValid() const {
  return least() <= kLargest && step() >= kLeastStep && step() <= kLargest;
}

void EcsqQuantizer::FindLevels(const float* values, size_t count, uint32_t* levels) const {
  Vectorized([=, quantizer = *this] {
    const LevelFinder finder(quantizer);
    TFC_INDEPENDENT
    for (size_t i = 0; i < count; ++i) levels[i] = static_cast<uint32_t>(finder.LevelOf(values[i]));
  });
}

void EcsqQuantizer::Round(Span<const float> values, Executor* executor, Span<float> decoded) const {
  const auto block = [&](int64_t, int64_t begin, int64_t end) {
    Vectorized([=, quantizer = *this, x = values.data(), ranks = decoded.data()] {
      const LevelFinder finder(quantizer);
      const int32_t first_rank = 1 - quantizer.dead;
      TFC_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        const auto rank = static_cast<float>(finder.LevelOf(x[i]) + first_rank);
        ranks[i] = std::copysign(rank, x[i] + 0.0f);  // -0 counts as positive.
      }
    });
  };
  ForEachBlock(executor, static_cast<int64_t>(values.size()), block);
  DecodeRanks(executor, decoded);
}

void EcsqQuantizer::DecodeRanks(Executor* executor, Span<float> values) const {
  const auto block = [&](int64_t, int64_t begin, int64_t end) {
    Vectorized([=, quantizer = *this, x = values.data()] {
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

double EcsqSearch::MostStep(Span<const float> values) const {
  const Range range = Range::Of(values, SerialExecutor());
  const double most = kMostGrowth * FirstStep(range, relative_error_, values.size());
  return std::max(most, LeastStep(range));
}

EcsqQuantizer EcsqSearch::Choose(Span<const float> values, Executor* executor) const {
  const Range range = Range::Of(values, executor);
  const double first_step = FirstStep(range, relative_error_, values.size());
  const uint16_t least_step = CeilToBFloat16(static_cast<float>(LeastStep(range)));
  const double root_mean_square =
      std::sqrt(range.sum_of_squares / std::max<size_t>(values.size(), 1));
  const bool selected = range.least >= kLeastShare * root_mean_square;
  const auto with_step = [&](double step) {
    EcsqQuantizer quantizer;
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
    EcsqQuantizer best;
    bool best_keeps = false;
    for (int i = 0; i < num_trials; ++i) {
      EcsqQuantizer trial = with_step(step);
      const Fit fit = Fit::Of(trial, some, executor);
      trial.center = fit.center;
      const bool keeps = fit.squared_error <= most_error;
      const bool is_better = keeps ? !best_keeps || trial.step_bits > best.step_bits : !best_keeps;
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

}  // namespace tfcompress
