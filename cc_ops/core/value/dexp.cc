// dexp: the sorted values as a curve y = a e^(bx) + c e^(dx), and the rank of each value as
// ceil(log2 k) bits (Fit-DExp, DeepReduce sections 5 and 5.1).
//
// Values are sorted nonnegative ones first, each sign by descending magnitude. A part, one for each
// sign, falls from its largest magnitude at x = 0 to its least at x = 1 and is fitted on its own.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/registry.h"
#include "core/value/block_statistics.h"
#include "core/value/curve_cells.h"
#include "core/value/double_exponential.h"
#include "core/value/packed_codes.h"
#include "core/value/sorted_values.h"

namespace tfcompress {
namespace {

void WritePart(const CurvePart& part, ByteWriter* writer) {
  writer->Write(part.count);
  if (part.count == 0) return;
  for (float parameter : {part.curve.a, part.curve.b, part.curve.c, part.curve.d, part.range.least,
                          part.range.largest}) {
    writer->Write(parameter);
  }
}

Status ReadPart(uint64_t max_count, ByteReader* reader, CurvePart* part) {
  TFC_RETURN_IF_ERROR(reader->Read("count", &part->count));
  if (part->count > max_count) {
    return DataLoss("dexp: a part has ", part->count, " values, at most ", max_count, " expected");
  }
  if (part->count == 0) return OkStatus();
  for (float* parameter : {&part->curve.a, &part->curve.b, &part->curve.c, &part->curve.d,
                           &part->range.least, &part->range.largest}) {
    TFC_RETURN_IF_ERROR(reader->Read("parameter", parameter));
    if (!IsFiniteBits(FloatBits(*parameter))) return DataLoss("dexp: a parameter is not finite");
  }
  return part->range.Check().WithContext("dexp");
}

std::vector<CurvePoint> SummarizePart(const CurvePart& part, Span<const uint64_t> items,
                                      Executor* executor) {
  std::vector<int64_t> starts;
  for (uint64_t i = 0; i < items.size(); i = CellEnd(i)) starts.push_back(static_cast<int64_t>(i));
  starts.push_back(static_cast<int64_t>(items.size()));
  std::vector<CurvePoint> points(starts.size() - 1);
  auto summarize = [&](int64_t, int64_t first, int64_t last) {
    for (int64_t cell = first; cell < last; ++cell) {
      const double sum = SumParts(starts[cell], starts[cell + 1],
                                  [&](int64_t i) { return CellTerm(MagnitudeOf(items[i])); });
      points[cell] = PointOfCell(part, starts[cell], starts[cell + 1], sum);
    }
  };
  constexpr int64_t kCellsPerTask = 64;
  ForEachBlock(executor, points.size(), summarize, kCellsPerTask);
  return points;
}

CurvePart FitPart(Span<const uint64_t> items, Executor* executor) {
  CurvePart part;
  part.count = static_cast<uint32_t>(items.size());
  if (items.empty()) return part;
  part.range.largest = MagnitudeOf(items[0]);
  part.range.least = MagnitudeOf(items[items.size() - 1]);
  if (part.range.IsOneMagnitude()) return part;
  part.curve = FitDoubleExponential(SummarizePart(part, items, executor));
  return part;
}

// Computes the decoded value of each rank of a part.
void EvaluatePart(const CurvePart& part, uint32_t sign_bit, Executor* executor, Span<float> table) {
  constexpr int64_t kStride = CurvePart::kStride;
  static_assert(kBlockElements % kStride == 0);
  std::array<CurvePart::Terms, kStride> factors;
  for (uint32_t i = 0; i < kStride; ++i) factors[i] = part.Factors(i);
  ForEachBlock(executor, table.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += kStride) {
      const CurvePart::Terms terms = part.At(static_cast<uint32_t>(begin));
      float* stride = &table[begin];
      const int count = static_cast<int>(std::min<int64_t>(kStride, end - begin));
      for (int i = 0; i < count; ++i) stride[i] = part.Value(terms, factors[i], sign_bit);
    }
  });
}

class Dexp : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const SortedValues sorted(values, context.executor);
    ByteWriter writer(out);
    WritePart(FitPart(sorted.nonnegative(), context.executor), &writer);
    WritePart(FitPart(sorted.negative(), context.executor), &writer);
    sorted.WriteRanks(context.executor, &writer);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    const auto k = static_cast<uint32_t>(values.size());
    CurvePart nonnegative;
    CurvePart negative;
    TFC_RETURN_IF_ERROR(ReadPart(k, &reader, &nonnegative));
    TFC_RETURN_IF_ERROR(ReadPart(k - nonnegative.count, &reader, &negative));
    if (uint64_t{nonnegative.count} + negative.count != k) {
      return DataLoss("dexp: parts of ", nonnegative.count, " and ", negative.count, " values, ", k,
                      " expected");
    }
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(ReadCodes(k, BitsFor(k), &reader, &packed).WithContext("dexp"));

    std::vector<float> table(k);
    const Span<float> parts(table);
    EvaluatePart(nonnegative, 0, context.executor, parts.subspan(0, nonnegative.count));
    EvaluatePart(negative, kFloatSignBit, context.executor,
                 parts.subspan(nonnegative.count, negative.count));
    return GatherRanks(std::move(table), packed, context.executor, values).WithContext("dexp");
  }

  // One part.
  uint64_t MinEncodedBytes(uint32_t k) const override {
    return 2 * sizeof(uint32_t) + CurvePart::kCurveBytes + PackedBytes(k, BitsFor(k));
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return 2 * (sizeof(uint32_t) + CurvePart::kCurveBytes) + PackedBytes(k, BitsFor(k));
  }

  // Decoded magnitudes stay between the least and the largest one of their sign.
  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    DistancesWithinSigns(values, errors);
  }
};

}  // namespace

Definition<ValueCodec> DexpValue() {
  return {"double exponential fitted to the sorted values (DeepReduce 5, Fit-DExp)",
          {},
          Make<Dexp>,
          "the range of the values of one sign; never the sign",
          "56 + ceil(log2 k) k / 8"};
}

}  // namespace tfcompress
