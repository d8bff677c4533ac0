// poly: the sorted values as segments of polynomials, and the rank of each value as ceil(log2 k)
// bits (Fit-Poly, DeepReduce sections 5 and 5.1, Lemma 1).
//
// Values are sorted nonnegative ones first, each sign by descending magnitude. Each sign is a
// separate curve; a segment stores its range, so that no polynomial overshoots.
#include <algorithm>
#include <utility>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/packed_codes.h"
#include "core/value/piecewise_polynomial.h"
#include "core/value/sorted_values.h"

namespace tfcompress {
namespace {

using Segments = std::vector<PolynomialSegment>;

constexpr uint32_t kMaxSegments = 256;  // For a sign.
// Limits of the number that the heuristic suggests: at most the number of pieces in DeepReduce's
// Figure 5, and enough values per piece to pay for its parameters.
constexpr size_t kMaxSuggestedSegments = 8;
constexpr size_t kMinSuggestedLength = 64;
// The degree, and the number of segments of each sign.
constexpr uint64_t kHeaderBytes = 3 * sizeof(uint32_t);

uint32_t SuggestedSegments(Span<const float> magnitudes) {
  const size_t most =
      std::clamp<size_t>(magnitudes.size() / kMinSuggestedLength, 1, kMaxSuggestedSegments);
  return std::min(LemmaOneSegments(magnitudes), static_cast<uint32_t>(most));
}

std::vector<float> Magnitudes(Span<const uint64_t> items, Executor* executor) {
  std::vector<float> magnitudes(items.size());
  ForEachBlock(executor, items.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) magnitudes[i] = MagnitudeOf(items[i]);
  });
  return magnitudes;
}

void WriteSegments(const Segments& segments, uint32_t degree, ByteWriter* writer) {
  writer->Write(static_cast<uint32_t>(segments.size()));
  for (const PolynomialSegment& segment : segments) {
    writer->Write(segment.length);
    writer->Write(segment.range.least);
    writer->Write(segment.range.largest);
    writer->WriteArray(Span<const float>(segment.coefficients, segment.NumCoefficients(degree)));
  }
}

Status ReadSegment(uint32_t degree, ByteReader* reader, PolynomialSegment* segment) {
  TFC_RETURN_IF_ERROR(reader->Read("length", &segment->length));
  TFC_RETURN_IF_ERROR(reader->Read("least magnitude", &segment->range.least));
  TFC_RETURN_IF_ERROR(reader->Read("largest magnitude", &segment->range.largest));
  TFC_RETURN_IF_ERROR(segment->range.Check());
  for (uint32_t j = 0; j < segment->NumCoefficients(degree); ++j) {
    float* coefficient = &segment->coefficients[j];
    TFC_RETURN_IF_ERROR(reader->Read("coefficient", coefficient));
    if (!IsFiniteBits(FloatBits(*coefficient))) return DataLoss("a coefficient is not finite");
  }
  return OkStatus();
}

// Reads the segments of one sign and subtracts their lengths from `num_left`.
Status ReadSegments(uint32_t degree, ByteReader* reader, uint64_t* num_left, Segments* segments) {
  uint32_t num_segments = 0;
  TFC_RETURN_IF_ERROR(reader->Read("number of segments", &num_segments));
  if (num_segments > kMaxSegments) {
    return DataLoss(num_segments, " segments of a sign, at most ", kMaxSegments, " expected");
  }
  for (uint32_t i = 0; i < num_segments; ++i) {
    PolynomialSegment segment;
    TFC_RETURN_IF_ERROR(ReadSegment(degree, reader, &segment));
    if (segment.length == 0 || segment.length > *num_left) {
      return DataLoss("a segment has ", segment.length, " values, 1 to ", *num_left, " expected");
    }
    *num_left -= segment.length;
    segments->push_back(segment);
  }
  return OkStatus();
}

class Poly : public ValueCodec {
 public:
  explicit Poly(const Params& params)
      : degree_(static_cast<uint32_t>(params.Int("degree"))),
        max_segments_(static_cast<uint32_t>(params.Int("segments"))) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const SortedValues sorted(values, context.executor);
    ByteWriter writer(out);
    writer.Write(degree_);
    WriteSegments(Fit(sorted.nonnegative(), context.executor), degree_, &writer);
    WriteSegments(Fit(sorted.negative(), context.executor), degree_, &writer);
    sorted.WriteRanks(context.executor, &writer);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    return DecodeSection(section, context.executor, values).WithContext("poly");
  }

  // One segment of one coefficient.
  uint64_t MinEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + PolynomialSegment::NumBytes(1) + PackedBytes(k, BitsFor(k));
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    const uint64_t most = 2 * uint64_t{max_segments_ == 0 ? kMaxSuggestedSegments : max_segments_};
    return kHeaderBytes + std::min<uint64_t>(most, k) * PolynomialSegment::NumBytes(degree_ + 1) +
           PackedBytes(k, BitsFor(k));
  }

  // Decoded magnitudes stay within the range of their segment.
  double MaxError(Span<const float> values) const override {
    return LargestOfMaxErrors(*this, values);
  }
  void MaxErrors(Span<const float> values, Span<double> errors) const override {
    DistancesWithinSigns(values, errors);
  }

 private:
  Segments Fit(Span<const uint64_t> items, Executor* executor) const {
    if (items.empty()) return {};
    const std::vector<float> magnitudes = Magnitudes(items, executor);
    const uint32_t max_segments =
        max_segments_ == 0 ? SuggestedSegments(magnitudes) : max_segments_;
    return FitSegments(magnitudes, degree_, max_segments, executor);
  }

  static Status DecodeSection(ByteSpan section, Executor* executor, Span<float> values) {
    ByteReader reader(section);
    uint32_t degree = 0;
    TFC_RETURN_IF_ERROR(reader.Read("degree", &degree));
    if (degree > kMaxPolynomialDegree) {
      return DataLoss("degree ", degree, " is above ", kMaxPolynomialDegree);
    }
    uint64_t num_left = values.size();
    Segments segments;
    TFC_RETURN_IF_ERROR(ReadSegments(degree, &reader, &num_left, &segments));
    const size_t num_nonnegative = segments.size();
    TFC_RETURN_IF_ERROR(ReadSegments(degree, &reader, &num_left, &segments));
    if (num_left != 0) return DataLoss(num_left, " of ", values.size(), " values in no segment");
    ByteSpan packed;
    const auto k = static_cast<uint32_t>(values.size());
    TFC_RETURN_IF_ERROR(ReadCodes(k, BitsFor(k), &reader, &packed));

    std::vector<float> table(values.size());
    size_t first = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      const uint32_t sign_bit = i < num_nonnegative ? 0 : kFloatSignBit;
      EvaluateSegment(segments[i], degree, sign_bit, executor,
                      Span<float>(table).subspan(first, segments[i].length));
      first += segments[i].length;
    }
    return GatherRanks(std::move(table), packed, executor, values);
  }

  uint32_t degree_;
  uint32_t max_segments_;  // Of a sign; 0 for what the heuristic suggests.
};

}  // namespace

Definition<ValueCodec> PolyValue() {
  return {"piecewise polynomials fitted to the sorted values (DeepReduce 5, Fit-Poly)",
          {{"degree", ParamKind::kInt, "5", "degree of the polynomials", 1, kMaxPolynomialDegree},
           {"segments", ParamKind::kInt, "0",
            "largest number of segments of a sign; 0: as many as Lemma 1 suggests, up to 8", 0,
            kMaxSegments}},
          Make<Poly>,
          "the range of a segment; never the sign",
          "12 + (16 + 4 degree) segments + ceil(log2 k) k / 8"};
}

}  // namespace tfcompress
