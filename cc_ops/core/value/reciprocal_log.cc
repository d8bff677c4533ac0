// log: magnitudes as integer logarithms of their reciprocal share of the sum of magnitudes, rounded
// so that none is overestimated; what is small against the sum is dropped (FastSGD 3.2, Algorithm
// 1).
//
// L(v) = ceil(log_b(sum / |v|)) is the least L with sum / b^L <= |v|. The encoder looks it up among
// the very floats that decoders make of L, so that no logarithm is taken and the inequality is
// exact.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/finite.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/packed_codes.h"
#include "core/value/reciprocal_log_levels.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxTau = 32767;

// The least magnitude that is a normal number; infinity without one.
float LeastNormal(Span<const float> values, Executor* executor) {
  const auto bits = KeyRangeOf(values, executor, [](float value) {
    const uint32_t magnitude = MagnitudeBits(value);
    return magnitude >= kLeastNormalBits ? magnitude : kFloatInfinityBits;
  });
  return FloatFromBits(std::min(bits.least, kFloatInfinityBits));
}

// The magnitudes of the L of a scale, descending.
std::vector<float> LevelsOf(const LogScale& scale) {
  double power = 1;
  for (int i = 0; i < scale.first; ++i) power *= scale.base;
  std::vector<float> levels(scale.num_levels);
  for (float& level : levels) {
    level = scale.Level(power);
    power *= scale.base;
  }
  return levels;
}

// Finds the largest level that is not above a magnitude. Floats are cut into intervals by their
// leading bits, finely enough that no interval holds two levels: one look says which level counts
// at the upper end of an interval, one comparison whether it is the next one.
class LevelFinder {
 public:
  // No magnitude is above `largest`, nor the first level.
  LevelFinder(Span<const float> levels, float largest) {
    if (levels.empty()) return;
    for (size_t i = 1; i < levels.size(); ++i) {
      const uint32_t differing = FloatBits(levels[i - 1]) ^ FloatBits(levels[i]);
      while (differing >> shift_ == 0) --shift_;
    }
    least_ = FloatBits(levels[levels.size() - 1]);
    origin_ = least_ >> shift_ << shift_;
    intervals_.resize(IntervalOf(FloatBits(largest)) + 1);
    uint32_t level = 0;
    for (size_t i = intervals_.size(); i-- > 0;) {
      const auto end = static_cast<uint32_t>(origin_ + ((i + 1) << shift_));
      while (FloatBits(levels[level]) >= end) ++level;
      intervals_[i] = {FloatBits(levels[level]), level};
    }
  }

  uint32_t CodeOf(float value) const {
    const uint32_t bits = MagnitudeBits(value);
    const Interval& interval = intervals_[IntervalOf(std::max(bits, least_))];
    const uint32_t level = interval.level + (bits < interval.level_bits);
    return bits < least_ ? 0 : LogScale::Code(level, value);
  }

 private:
  struct Interval {
    uint32_t level_bits;
    uint32_t level;
  };

  uint32_t IntervalOf(uint32_t bits) const { return (bits - origin_) >> shift_; }

  // Without levels: an interval that no finite number reaches.
  uint32_t least_ = kFloatInfinityBits;
  uint32_t origin_ = kFloatInfinityBits;
  int shift_ = 23;
  std::vector<Interval> intervals_ = {{0, 0}};
};

class Log : public ValueCodec {
 public:
  explicit Log(const Params& params)
      : base_(params.Float("base")), tau_(static_cast<uint32_t>(params.Int("tau"))) {}

  // The sum of what is left is less, so that Encode finds none above tau again; where tau adapts,
  // Encode filters nothing.
  float LeastSent(Span<const float> values, Executor* executor) const override {
    const uint32_t tau = tau_ > 0 ? tau_ : LogScale::AdaptedTau(base_, values.size());
    const std::vector<float> levels = LadderFor(values, tau, executor).levels;
    return levels.empty() ? std::numeric_limits<float>::infinity() : levels.back();
  }

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const Ladder ladder = EncodingLadder(values, context.executor);
    ByteWriter writer(out);
    writer.Write(ladder.scale.base);
    writer.Write(ladder.scale.sum);
    writer.Write(ladder.scale.first);
    writer.Write(ladder.scale.num_levels);
    const LevelFinder finder(ladder.levels, ladder.largest);
    const int num_bits = BitsFor(ladder.scale.NumCodes());
    PackCodes(values.size(), num_bits, context.executor,
              writer.Extend(PackedBytes(values.size(), num_bits)),
              [&](int64_t begin, int64_t end, uint32_t* codes) {
                for (int64_t i = begin; i < end; ++i) codes[i - begin] = finder.CodeOf(values[i]);
              });
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    return OpenSection(section, k, decoder).WithContext("log");
  }

  // No level: no code has a bit.
  uint64_t MinEncodedBytes(uint32_t) const override { return LogScale::kNumBytes; }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    const int num_bits = BitsFor(ScaleOf(0, MaxTau()).NumCodes());
    return LogScale::kNumBytes + PackedBytes(k, num_bits);
  }

  // The next lower level, unless the value lies below that of tau or has no normal one.
  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    constexpr double kRounding = 0x1p-22;  // Of levels to floats, and of the powers of the base.
    double sum = 0;
    for (float value : values) sum += std::fabs(NormalOrZero(value));
    const double least =
        std::max(sum / std::pow(base_, MaxTau()), base_ * 0x1p-126) * (1 + kRounding);
    for (size_t i = 0; i < values.size(); ++i) {
      const double magnitude = std::fabs(double{values[i]});
      errors[i] = magnitude < least ? magnitude : magnitude * (1 - (1 - kRounding) / base_);
    }
  }

 private:
  struct Ladder {
    LogScale scale;
    std::vector<float> levels;
    float largest;  // Magnitude; subnormal ones count as 0.
  };

  LogScale ScaleOf(double sum, uint32_t tau) const {
    return {base_, sum, 0, static_cast<uint16_t>(tau + 1)};
  }
  // No filter that adapts goes further.
  uint32_t MaxTau() const { return tau_ > 0 ? tau_ : LogScale::AdaptedTau(base_, kMaxElements); }

  // Where tau adapts, the levels reach to the least magnitude: LeastSent has filtered, and nothing
  // is saved by filtering what is sent anyway.
  Ladder EncodingLadder(Span<const float> values, Executor* executor) const {
    Ladder ladder = LadderFor(values, MaxTau(), executor);
    if (tau_ > 0) return ladder;
    const float least = LeastNormal(values, executor);
    const auto end = std::find_if(ladder.levels.begin(), ladder.levels.end(),
                                  [&](float level) { return level <= least; });
    const auto reach = static_cast<uint32_t>(end - ladder.levels.begin()) + 1;
    const uint32_t first = ladder.scale.first;
    const uint32_t as_in_paper = LogScale::kPaperTau + 1 - std::min(LogScale::kPaperTau + 1, first);
    const size_t num_levels = std::min<size_t>(ladder.levels.size(), std::max(reach, as_in_paper));
    ladder.levels.resize(num_levels);
    ladder.scale.num_levels = static_cast<uint16_t>(num_levels);
    return ladder;
  }

  // The levels from the one of the largest magnitude to that of tau, or to the last normal one.
  Ladder LadderFor(Span<const float> values, uint32_t tau, Executor* executor) const {
    Ladder ladder;
    ladder.largest = FlushSubnormal(FloatFromBits(MaxMagnitude(values, executor)));
    const double sum = SumOverBlocks(values.size(), executor,
                                     [&](int64_t i) { return std::fabs(NormalOrZero(values[i])); });
    ladder.scale = ScaleOf(sum, tau);
    std::vector<float> levels = LevelsOf(ladder.scale);
    const auto begin = std::find_if(levels.begin(), levels.end(),
                                    [&](float level) { return level <= ladder.largest; });
    const auto end = std::find(begin, levels.end(), 0.0f);
    ladder.scale.first = static_cast<uint16_t>(begin - levels.begin());
    ladder.scale.num_levels = static_cast<uint16_t>(end - begin);
    ladder.levels.assign(begin, end);
    return ladder;
  }

  static Status OpenSection(ByteSpan section, uint32_t k, ChunkDecoder* decoder) {
    ByteReader reader(section);
    LogScale scale;
    TFC_RETURN_IF_ERROR(reader.Read("base", &scale.base));
    TFC_RETURN_IF_ERROR(reader.Read("sum", &scale.sum));
    TFC_RETURN_IF_ERROR(reader.Read("first logarithm", &scale.first));
    TFC_RETURN_IF_ERROR(reader.Read("number of levels", &scale.num_levels));
    if (!scale.IsValid()) return DataLoss("base ", scale.base, ", sum ", scale.sum);
    const int num_bits = BitsFor(scale.NumCodes());
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(ReadCodes(k, num_bits, &reader, &packed));  // Before the table is made.
    const std::vector<float> levels = LevelsOf(scale);
    if (!levels.empty() && !IsFiniteBits(FloatBits(levels[0]))) {
      return DataLoss("the first level of sum ", scale.sum, " is not finite");
    }
    std::vector<float> table = {0};
    table.reserve(scale.NumCodes());
    for (float level : levels) {
      table.push_back(LogScale::Value(1, level));
      table.push_back(LogScale::Value(2, level));
    }
    *decoder = DecodeTable(packed, num_bits, std::move(table));
    return OkStatus();
  }

  double base_;
  uint32_t tau_;
};

}  // namespace

Definition<ValueCodec> LogValue() {
  return {
      "logarithms of reciprocals, never overestimated, filtered by tau (FastSGD 3.2)",
      {{"base", ParamKind::kFloat, "1.1", "base of the logarithm", LogScale::kMinBase,
        LogScale::kMaxBase},
       {"tau", ParamKind::kInt, "128",
        "largest logarithm that is sent; 0: 128, or that of the mean magnitude where it is larger",
        0, kMaxTau}},
      Make<Log>,
      "a factor of the base, towards zero; all of it beyond tau",
      "20 + ceil(log2(2 m + 1)) k / 8, m <= tau + 1 levels"};
}

}  // namespace tfcompress
