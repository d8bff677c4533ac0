// minmax: quantile buckets whose numbers are kept in one MinMaxSketch for each sign, keyed by the
// indices of the support (SketchML 3.3, without its groups; SKCompress 4.2).
//
// Buckets are numbered by distance from zero, so a collision moves a value towards zero. One bit
// per value selects its sketch. (The joint codecs have separate key lists for each sign and group
// instead, with longer gaps.)
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/count_bits.h"
#include "core/entropy/bucket_tables.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/registry.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/minmax_sketch.h"
#include "core/value/packed_codes.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxBuckets = 32768;  // Of a sign. A cell holds less than MinMaxSketch::kEmpty.
constexpr uint32_t kMaxRows = 8;

// Of a sign with values: the mean of a bucket and the number of columns.
constexpr uint64_t kMinSketchBytes = sizeof(float) + sizeof(uint32_t);

struct Config {
  uint32_t buckets;
  uint32_t rows;
  double columns;  // Columns per value.
};

uint64_t SketchSeed(uint64_t seed, uint32_t sign) { return HashKey(sign, seed); }

bool IsSet(ByteSpan bits, size_t i) { return bits[i / 8] >> (i % 8) & 1; }

// The elements of one sign, in the order of their keys.
struct SignPart {
  std::vector<uint32_t> keys;
  std::vector<float> magnitudes;
};

// Returns the nonnegative elements (-0 counts as 0), then the negative ones.
std::array<SignPart, kNumSigns> SplitSigns(const Support& support, Span<const float> values) {
  std::array<SignPart, kNumSigns> parts;
  std::array<size_t, kNumSigns> sizes = {};
  for (float value : values) ++sizes[IsNegative(value)];
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    // One more, for the extra store after the last element.
    parts[sign].keys.resize(sizes[sign] + 1);
    parts[sign].magnitudes.resize(sizes[sign] + 1);
  }
  // Every element is stored on both sides, and kept on one, since a branch would be mispredicted
  // half of the time.
  size_t num_negative = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t num_nonnegative = i - num_negative;
    const float magnitude = std::fabs(values[i]);
    parts[0].keys[num_nonnegative] = parts[1].keys[num_negative] = support[i];
    parts[0].magnitudes[num_nonnegative] = parts[1].magnitudes[num_negative] = magnitude;
    num_negative += IsNegative(values[i]);
  }
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    parts[sign].keys.resize(sizes[sign]);
    parts[sign].magnitudes.resize(sizes[sign]);
  }
  return parts;
}

// The buckets of one sign and the sketch of their numbers.
struct SignSketch {
  std::vector<float> means;
  MinMaxSketch sketch;
};

class Minmax : public ValueCodec {
 public:
  explicit Minmax(const Params& params)
      : config_{static_cast<uint32_t>(params.Int("buckets")),
                static_cast<uint32_t>(params.Int("rows")), params.Float("columns")} {}

  Status Encode(Span<const float> values, const Support& support, const CodecContext& context,
                Bytes* out) const override {
    const std::array<SignPart, kNumSigns> parts = SplitSigns(support, values);
    ByteWriter writer(out);
    writer.Write(config_.rows);
    PackSigns(values, context.executor, &writer);
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      EncodeSign(parts[sign], SketchSeed(context.seed, sign), context.executor, &writer);
    }
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support& support, const CodecContext& context,
                Span<float> values) const override {
    return DecodeSection(section, support, context, values).WithContext("minmax");
  }

  // One sign, in one bucket.
  uint64_t MinEncodedBytes(uint32_t k) const override {
    return sizeof(uint32_t) + PackedBytes(k, 1) + kNumSigns * sizeof(uint32_t) + kMinSketchBytes;
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    // Each sign rounds its number of columns up, and its cells up to whole bytes.
    const uint64_t num_buckets = std::min<uint64_t>(kNumSigns * config_.buckets, k);
    const auto num_columns = static_cast<uint64_t>(std::ceil(config_.columns * k)) + kNumSigns;
    return sizeof(uint32_t) + PackedBytes(k, 1) + 2 * kNumSigns * sizeof(uint32_t) +
           num_buckets * sizeof(float) +
           PackedBytes(config_.rows * num_columns, BitsFor(config_.buckets)) + kNumSigns;
  }

  // Decoded magnitudes are means of the value's bucket or of a lower one of its sign.
  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    const Support all = Support::Everything(static_cast<uint32_t>(values.size()));
    for (const SignPart& part : SplitSigns(all, values)) {
      if (part.keys.empty()) continue;
      std::vector<MeanRange> ranges = MeanRanges(part.magnitudes, config_.buckets);
      const float least = *std::min_element(part.magnitudes.begin(), part.magnitudes.end());
      for (size_t i = 0; i < part.keys.size(); ++i) {
        ranges[i].least = least;
        errors[part.keys[i]] = ranges[i].MaxDistance(part.magnitudes[i]);
      }
    }
  }

 private:
  void EncodeSign(const SignPart& part, uint64_t seed, Executor* executor,
                  ByteWriter* writer) const {
    const BucketCodes buckets = QuantizeToBuckets(part.magnitudes, config_.buckets, executor);
    WriteBucketMeans(buckets.means, writer);
    if (buckets.means.empty()) return;
    const uint32_t num_columns = NumSketchColumns(config_.columns, part.keys.size());
    MinMaxSketch sketch(config_.rows, num_columns, seed);
    auto fill_row = [&](int64_t row, int64_t, int64_t) {
      sketch.InsertIntoRow(static_cast<uint32_t>(row), part.keys, buckets.codes.data());
    };
    ForEachBlock(executor, config_.rows, fill_row, /*block_elements=*/1);
    sketch.FillEmpty(0);
    writer->Write(num_columns);
    WritePackedCells(sketch.cells(), static_cast<uint32_t>(buckets.means.size()), writer);
  }

  // Reads what EncodeSign wrote for `num_values` values.
  static Status ReadSign(uint32_t rows, uint64_t num_values, uint64_t seed, ByteReader* reader,
                         std::vector<SignSketch>* sketches) {
    const auto max_buckets = static_cast<uint32_t>(std::min<uint64_t>(num_values, kMaxBuckets));
    std::vector<float> means;
    TFC_RETURN_IF_ERROR(ReadBucketMeans(max_buckets, reader, &means));
    if (means.empty() != (num_values == 0))
      return DataLoss("no bucket for ", num_values, " values");
    uint32_t num_columns = 0;
    if (!means.empty()) {
      TFC_RETURN_IF_ERROR(reader->Read("number of columns", &num_columns));
      if (num_columns == 0 || num_columns > num_values) {
        return DataLoss("a sketch has ", num_columns, " columns for ", num_values, " values");
      }
    }
    const auto width = static_cast<uint32_t>(means.size());
    sketches->push_back({std::move(means), MinMaxSketch(rows, num_columns, seed)});
    if (width == 0) return OkStatus();
    return ReadPackedCells(width, reader, sketches->back().sketch.cells());
  }

  static Status DecodeSection(ByteSpan section, const Support& support, const CodecContext& context,
                              Span<float> values) {
    ByteReader reader(section);
    const size_t k = values.size();
    uint32_t rows = 0;
    ByteSpan signs;
    TFC_RETURN_IF_ERROR(reader.Read("rows", &rows));
    if (rows < 1 || rows > kMaxRows) {
      return DataLoss(rows, " rows, 1 to ", kMaxRows, " expected");
    }
    TFC_RETURN_IF_ERROR(reader.ReadSpan("signs", PackedBytes(k, 1), &signs));
    if (k % 8 != 0 && signs[signs.size() - 1] >> (k % 8) != 0) {
      return DataLoss("signs are set after the last of ", k, " values");
    }
    const uint64_t num_negative = CountBits(signs);
    std::vector<SignSketch> sketches;
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      TFC_RETURN_IF_ERROR(ReadSign(rows, sign == 0 ? k - num_negative : num_negative,
                                   SketchSeed(context.seed, sign), &reader, &sketches));
    }
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("sketches"));

    ForEachBlock(context.executor, k, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const bool negative = IsSet(signs, i);
        const SignSketch& sign = sketches[negative];
        const float magnitude = sign.means[sign.sketch.Query(support[i])];
        values[i] = FloatFromBits(FloatBits(magnitude) | (negative ? kFloatSignBit : 0));
      }
    });
    return OkStatus();
  }

  Config config_;
};

}  // namespace

Definition<ValueCodec> MinmaxValue() {
  return {
      "quantile buckets in a MinMaxSketch of the indices for each sign (SketchML 3.3)",
      {{"buckets", ParamKind::kInt, "256", "largest number of buckets of a sign", 2, kMaxBuckets},
       {"rows", ParamKind::kInt, "2", "rows of a sketch", 1, kMaxRows},
       {"columns", ParamKind::kFloat, "0.2", "columns of a sketch for each value", 0, 1, true}},
      Make<Minmax>,
      "towards zero; never the sign",
      "8 buckets + k / 8 + rows columns k ceil(log2 buckets) / 8"};
}

}  // namespace tfcompress
