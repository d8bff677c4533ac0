// dexp: the sorted values as a curve y = a e^(bx) + c e^(dx), and the place of each value in it as
// ceil(log2 k) bits (Fit-DExp, DeepReduce sections 5 and 5.1).
//
// Values are sorted nonnegative ones first, each sign by descending magnitude. A part, one for each
// sign, falls from its largest magnitude at x = 0 to its least at x = 1 and is fitted on its own.
#include <algorithm>
#include <array>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/double_exponential.h"
#include "core/value/magnitude_range.h"
#include "core/value/sorted_values.h"

namespace tfcompress {
namespace {

// One part as it is on the wire. Its largest magnitude also is the unit of the curve, so that its
// amplitudes are moderate whatever the scale of the values.
struct Part {
  uint32_t count = 0;
  DoubleExponential curve;
  MagnitudeRange range;
};

constexpr uint64_t kPartBytes = 4 + 6 * sizeof(float);

void WritePart(const Part& part, ByteWriter* writer) {
  writer->Write(part.count);
  if (part.count == 0) return;
  for (float parameter : {part.curve.a, part.curve.b, part.curve.c, part.curve.d, part.range.least,
                          part.range.largest}) {
    writer->Write(parameter);
  }
}

Status ReadPart(uint64_t max_count, ByteReader* reader, Part* part) {
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

double StepOf(uint32_t count) { return count > 1 ? 1.0 / (count - 1) : 0.0; }

// Cuts a part into some hundred cells and takes the mean of each: the fit then costs the same for
// any k. Cells grow with the distance from the head, where the curve is steep: the first hold one
// value, later ones 1/32 as many as are before them.
std::vector<CurvePoint> SummarizePart(Span<const uint64_t> items, Executor* executor) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < items.size(); i += 1 + i / 32) starts.push_back(i);
  starts.push_back(items.size());
  std::vector<CurvePoint> points(starts.size() - 1);
  const double step = StepOf(static_cast<uint32_t>(items.size()));
  const double unit = 1 / double{MagnitudeOf(items[0])};
  auto summarize = [&](int64_t, int64_t first, int64_t last) {
    for (int64_t cell = first; cell < last; ++cell) {
      const auto begin = static_cast<double>(starts[cell]);
      const auto end = static_cast<double>(starts[cell + 1]);
      double sum = 0;
      for (size_t i = starts[cell]; i < starts[cell + 1]; ++i) sum += MagnitudeOf(items[i]);
      points[cell] = {0.5 * (begin + end - 1) * step, sum / (end - begin) * unit, end - begin};
    }
  };
  constexpr int64_t kCellsPerTask = 64;
  ForEachBlock(executor, points.size(), summarize, kCellsPerTask);
  return points;
}

Part FitPart(Span<const uint64_t> items, Executor* executor) {
  Part part;
  part.count = static_cast<uint32_t>(items.size());
  if (items.empty()) return part;
  part.range.largest = MagnitudeOf(items[0]);
  part.range.least = MagnitudeOf(items[items.size() - 1]);
  // A constant part needs no curve: it is clamped to its only value.
  const bool is_constant = part.range.least == part.range.largest;
  if (!is_constant) part.curve = FitDoubleExponential(SummarizePart(items, executor));
  return part;
}

// The decoded value of each rank of a part. Exponentials are evaluated once every kStride ranks and
// multiplied on from there: e^(b(x + h)) = e^(bx) e^(bh). Part of the wire format.
void EvaluatePart(const Part& part, uint32_t sign_bit, Executor* executor, Span<float> table) {
  constexpr int kStride = 64;
  static_assert(kBlockElements % kStride == 0);
  const DoubleExponential curve = part.curve;
  const double step = StepOf(part.count);
  std::array<double, kStride> factor_b;
  std::array<double, kStride> factor_d;
  for (int i = 0; i < kStride; ++i) {
    factor_b[i] = DoubleExponential::Term(curve.b * (i * step));
    factor_d[i] = DoubleExponential::Term(curve.d * (i * step));
  }
  const MagnitudeRange range = part.range;
  const double largest = range.largest;
  ForEachBlock(executor, table.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += kStride) {
      const double x = static_cast<double>(begin) * step;
      const double u = largest * curve.a * DoubleExponential::Term(curve.b * x);
      const double v = largest * curve.c * DoubleExponential::Term(curve.d * x);
      float* stride = &table[begin];
      const int count = static_cast<int>(std::min<int64_t>(kStride, end - begin));
      for (int i = 0; i < count; ++i) {
        const double y = u * factor_b[i] + v * factor_d[i];
        stride[i] = FloatFromBits(range.RoundedBits(y) | sign_bit);
      }
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
    const size_t k = values.size();
    Part nonnegative;
    Part negative;
    TFC_RETURN_IF_ERROR(ReadPart(k, &reader, &nonnegative));
    TFC_RETURN_IF_ERROR(ReadPart(k - nonnegative.count, &reader, &negative));
    if (uint64_t{nonnegative.count} + negative.count != k) {
      return DataLoss("dexp: parts of ", nonnegative.count, " and ", negative.count, " values, ", k,
                      " expected");
    }
    ByteSpan packed;
    TFC_RETURN_IF_ERROR(ReadRanks(k, &reader, &packed).WithContext("dexp"));

    std::vector<float> table(k);
    const Span<float> parts(table);
    EvaluatePart(nonnegative, 0, context.executor, parts.subspan(0, nonnegative.count));
    EvaluatePart(negative, kFloatSignBit, context.executor,
                 parts.subspan(nonnegative.count, negative.count));
    return GatherRanks(table, packed, context.executor, values).WithContext("dexp");
  }

  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return 2 * kPartBytes + PackedBytes(k, BitsFor(k));
  }

  // Decoded magnitudes stay between the least and the largest one of their sign.
  double MaxError(Span<const float> values) const override { return WidestRange(values); }
};

}  // namespace

Definition<ValueCodec> DexpValue() {
  return {
      "double exponential fitted to the sorted values (DeepReduce 5, Fit-DExp)",
      {},
      [](const Params&) -> std::unique_ptr<const ValueCodec> { return std::make_unique<Dexp>(); },
      "the range of the values of one sign; never the sign",
      "56 + ceil(log2 k) k / 8"};
}

}  // namespace tfcompress
