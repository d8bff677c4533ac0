// dexp: the sorted values as a curve y = a e^(bx) + c e^(dx), and the place of each value in it as
// ceil(log2 k) bits (Fit-DExp, DeepReduce sections 5 and 5.1).
//
// Values are sorted nonnegative ones first, each sign by descending magnitude. A part, one for each
// sign, falls from its largest magnitude at x = 0 to its least at x = 1 and is fitted on its own.
#include <algorithm>
#include <array>
#include <atomic>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/radix_sort.h"
#include "core/registry.h"
#include "core/value/double_exponential.h"

namespace tfcompress {
namespace {

// One part as it is on the wire. `largest` also is the unit of the curve, so that its amplitudes
// are moderate whatever the scale of the values.
struct Part {
  uint32_t count = 0;
  DoubleExponential curve;
  float least = 0;  // Of the magnitudes; decoded ones are clamped to [least, largest].
  float largest = 0;
};

constexpr uint64_t kPartBytes = 4 + 6 * sizeof(float);

void WritePart(const Part& part, ByteWriter* writer) {
  writer->Write(part.count);
  if (part.count == 0) return;
  for (float parameter :
       {part.curve.a, part.curve.b, part.curve.c, part.curve.d, part.least, part.largest}) {
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
                           &part->least, &part->largest}) {
    TFC_RETURN_IF_ERROR(reader->Read("parameter", parameter));
    if (!IsFiniteBits(FloatBits(*parameter))) return DataLoss("dexp: a parameter is not finite");
  }
  // Floats without a sign bit are ordered as their bits; with one, the bits are greater than these.
  if (FloatBits(part->least) > FloatBits(part->largest) ||
      FloatBits(part->largest) > kFloatMagnitudeBits) {
    return DataLoss("dexp: magnitudes in [", part->least, ", ", part->largest, "]");
  }
  return OkStatus();
}

double StepOf(uint32_t count) { return count > 1 ? 1.0 / (count - 1) : 0.0; }

// The sort key: nonnegative before negative, then descending magnitude. -0 counts as +0.
uint32_t SortKey(float value) {
  const uint32_t bits = FloatBits(value);
  return (bits == kFloatSignBit ? 0 : bits) ^ kFloatMagnitudeBits;
}
float MagnitudeOf(uint64_t item) { return FloatFromBits(~ItemKey(item) & kFloatMagnitudeBits); }
bool IsNonnegative(uint64_t item) { return (ItemKey(item) & kFloatSignBit) == 0; }

// The sorted values, each with its position.
std::vector<uint64_t> SortValues(Span<const float> values, Executor* executor) {
  std::vector<uint64_t> items(values.size());
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      items[i] = PackItem(SortKey(values[i]), static_cast<uint32_t>(i));
    }
  });
  RadixSortByKey(executor, &items);
  return items;
}

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
  part.largest = MagnitudeOf(items[0]);
  part.least = MagnitudeOf(items[items.size() - 1]);
  // A constant part needs no curve: it is clamped to its only value.
  const bool is_constant = part.least == part.largest;
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
  const double largest = part.largest;
  const uint32_t least_bits = FloatBits(part.least);
  const uint32_t largest_bits = FloatBits(part.largest);
  auto decoded_bits = [&](double y) {
    y = y > 0 ? y : 0;
    y = y < largest ? y : largest;
    const uint32_t bits = FloatBits(static_cast<float>(y));
    // Subnormal results are flushed, so that the thread's floating-point mode does not matter.
    const uint32_t normal_bits = bits < 0x00800000u ? 0 : bits;
    return std::min(std::max(normal_bits, least_bits), largest_bits) | sign_bit;
  };
  ForEachBlock(executor, table.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += kStride) {
      const double x = static_cast<double>(begin) * step;
      const double u = largest * curve.a * DoubleExponential::Term(curve.b * x);
      const double v = largest * curve.c * DoubleExponential::Term(curve.d * x);
      float* stride = &table[begin];
      const int count = static_cast<int>(std::min<int64_t>(kStride, end - begin));
      for (int i = 0; i < count; ++i) {
        stride[i] = FloatFromBits(decoded_bits(u * factor_b[i] + v * factor_d[i]));
      }
    }
  });
}

class Dexp : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const std::vector<uint64_t> items = SortValues(values, context.executor);
    const Span<const uint64_t> sorted(items);
    const size_t num_nonnegative =
        std::partition_point(sorted.begin(), sorted.end(), IsNonnegative) - sorted.begin();
    ByteWriter writer(out);
    WritePart(FitPart(sorted.subspan(0, num_nonnegative), context.executor), &writer);
    WritePart(
        FitPart(sorted.subspan(num_nonnegative, items.size() - num_nonnegative), context.executor),
        &writer);
    WriteRanks(sorted, context.executor, &writer);
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
    TFC_RETURN_IF_ERROR(reader.ReadSpan("ranks", PackedBytes(k, BitsFor(k)), &packed));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("dexp"));

    std::vector<float> table(k);
    const Span<float> parts(table);
    EvaluatePart(nonnegative, 0, context.executor, parts.subspan(0, nonnegative.count));
    EvaluatePart(negative, kFloatSignBit, context.executor,
                 parts.subspan(nonnegative.count, negative.count));
    return GatherRanks(table, packed, context.executor, values);
  }

  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return 2 * kPartBytes + PackedBytes(k, BitsFor(k));
  }

  // Decoded magnitudes stay between the least and the largest one of their sign.
  double MaxError(Span<const float> values) const override {
    double widest = 0;
    for (const bool negative : {false, true}) {
      uint32_t least = kFloatMagnitudeBits;
      uint32_t largest = 0;
      for (float value : values) {
        if (IsNegative(value) != negative) continue;
        least = std::min(least, FloatBits(value) & kFloatMagnitudeBits);
        largest = std::max(largest, FloatBits(value) & kFloatMagnitudeBits);
      }
      if (least > largest) continue;
      widest = std::max(widest, double{FloatFromBits(largest)} - double{FloatFromBits(least)});
    }
    return widest;
  }

 private:
  static void WriteRanks(Span<const uint64_t> sorted, Executor* executor, ByteWriter* writer) {
    std::vector<uint32_t> ranks(sorted.size());
    ForEachBlock(executor, sorted.size(), [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ranks[ItemPayload(sorted[i])] = static_cast<uint32_t>(i);
      }
    });
    const int num_bits = BitsFor(sorted.size());
    unsigned char* packed = writer->Extend(PackedBytes(sorted.size(), num_bits));
    PackBits(ranks, num_bits, executor, packed);
  }

  // Ranks that are below k but no permutation still give values in range, so they pass.
  static Status GatherRanks(Span<const float> table, ByteSpan packed, Executor* executor,
                            Span<float> values) {
    std::vector<uint32_t> ranks(values.size());
    UnpackBits(packed, BitsFor(values.size()), executor, ranks);
    std::atomic<bool> in_range{true};
    ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
      uint32_t greatest = 0;
      for (int64_t i = begin; i < end; ++i) greatest = std::max(greatest, ranks[i]);
      if (greatest >= table.size()) {
        in_range = false;
        return;
      }
      for (int64_t i = begin; i < end; ++i) values[i] = table[ranks[i]];
    });
    if (!in_range) return DataLoss("dexp: a rank is not below ", table.size());
    return OkStatus();
  }
};

}  // namespace

Definition<ValueCodec> DexpValue() {
  return {
      "double exponential fitted to the sorted values (DeepReduce 5, Fit-DExp)",
      {},
      [](const Params&) -> std::unique_ptr<const ValueCodec> { return std::make_unique<Dexp>(); }};
}

}  // namespace tfcompress
