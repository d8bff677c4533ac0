// lossless: float32 bit for bit. Exponents, signs and the first bits of mantissas are coded by
// adaptive models: an exponent in the context of those of its row and its column so far, since the
// gradient of a dense layer is nearly an outer product, a sign in that of their signs. The bits
// that are zero in all values, as in those of a float16, are not sent. The others are noise.
#include <algorithm>
#include <array>
#include <vector>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/entropy/bit_stream.h"
#include "core/entropy/parts.h"
#include "core/entropy/rans.h"
#include "core/finite.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/value/grid_contexts.h"

namespace tfcompress {
namespace {

constexpr int kMantissaBits = 23;
constexpr uint32_t kMantissaMask = (1u << kMantissaBits) - 1;

// The low bits of mantissas that are 0 in all values of a part need not travel.
struct Precision {
  uint8_t largest = 0;              // Exponent field.
  uint8_t dropped = kMantissaBits;  // Low bits of all mantissas.
  // Values are multiples of 2^(unit - 150), the last place of numbers of exponent field `unit`:
  // those that were subnormal as float16 have fewer bits, the smaller they are.
  uint8_t unit = 0xFF;

  static Precision Of(Span<const float> values) {
    uint32_t largest = 0;
    uint32_t mantissas = 1u << kMantissaBits;
    int unit = 0xFF;
    for (const float value : values) {
      const uint32_t magnitude = MagnitudeBits(value);
      if (magnitude == 0) continue;
      largest = std::max(largest, magnitude);
      mantissas |= magnitude & kMantissaMask;
      uint32_t significand = magnitude & kMantissaMask;
      int exponent = 1;  // Of subnormal numbers.
      if (magnitude >= kLeastNormalBits) {
        significand |= 1u << kMantissaBits;
        exponent = static_cast<int>(magnitude >> kMantissaBits);
      }
      unit = std::min(unit, exponent + __builtin_ctz(significand));
    }
    return {static_cast<uint8_t>(largest >> kMantissaBits),
            static_cast<uint8_t>(__builtin_ctz(mantissas)), static_cast<uint8_t>(unit)};
  }
  // Low bits of a mantissa that are 0, by the exponent field.
  int NumZeros(int exponent) const {
    return std::min(kMantissaBits, std::max<int>(dropped, unit - std::max(exponent, 1)));
  }
};

// Magnitudes by models: the distance of the exponent from the largest, and the first bits of the
// mantissa. Its other bits stand apart, as they are.
class MagnitudeModels {
 public:
  // Bits of a mantissa below those that a model codes.
  static constexpr int kRestBits = kMantissaBits - 4;

  explicit MagnitudeModels(Precision precision) : precision_(precision) {
    for (int e = 0; e < kNumExponents; ++e) {
      num_rest_bits_[e] = static_cast<uint8_t>(std::max(kRestBits - precision.NumZeros(e), 0));
      rest_shifts_[e] = static_cast<uint8_t>(kRestBits - num_rest_bits_[e]);
    }
  }

  // How many bits of a magnitude are written to `rest`.
  int NumRestBits(uint32_t magnitude) const {
    return magnitude == 0 ? 0 : num_rest_bits_[magnitude >> kMantissaBits];
  }

  void Put(uint32_t magnitude, NibbleModel* distances, RansEncoder* coder, BitWriter* rest) {
    if (magnitude == 0) return coder->Put(kZero, distances);
    const uint32_t exponent = magnitude >> kMantissaBits;
    const int distance = precision_.largest - static_cast<int>(exponent);
    const int symbol = std::min(distance, kFar);
    coder->Put(symbol, distances);
    if (symbol == kFar) {
      coder->Put((distance - kFar) >> 4, &high_);
      coder->Put((distance - kFar) & 15, &low_);
    }
    coder->Put(static_cast<int>((magnitude & kMantissaMask) >> kRestBits), &mantissas_[symbol]);
    rest->Write((magnitude & kRestMask) >> rest_shifts_[exponent], num_rest_bits_[exponent]);
  }

  uint32_t Get(NibbleModel* distances, RansDecoder* coder, BitReader* rest) {
    const int symbol = coder->Get(distances);
    if (symbol == kZero) return 0;
    int distance = symbol;
    if (symbol == kFar) {
      const int high = coder->Get(&high_);
      distance += high << 4 | coder->Get(&low_);
    }
    is_valid_ &= distance <= precision_.largest;
    const auto exponent = static_cast<uint32_t>(std::max(precision_.largest - distance, 0));
    const auto first = static_cast<uint32_t>(coder->Get(&mantissas_[symbol]));
    const int num_bits = num_rest_bits_[exponent];
    const uint32_t bits = static_cast<uint32_t>(rest->Peek()) & ((1u << num_bits) - 1);
    rest->Skip(num_bits);
    return exponent << kMantissaBits | first << kRestBits | bits << rest_shifts_[exponent];
  }

  // Whether no exponent that was read is below 0.
  bool is_valid() const { return is_valid_; }

 private:
  static constexpr int kZero = NibbleModel::kLast;
  static constexpr int kFar = kZero - 1;  // What is farther is coded by two symbols more.
  static constexpr uint32_t kRestMask = (1u << kRestBits) - 1;
  static constexpr int kNumExponents = 256;

  Precision precision_;
  bool is_valid_ = true;
  NibbleModel high_, low_;
  std::array<NibbleModel, kFar + 1> mantissas_;  // By distance.
  std::array<uint8_t, kNumExponents> num_rest_bits_;
  std::array<uint8_t, kNumExponents> rest_shifts_;
};

// Models of exponents that are the sum of a row's and a column's, as those of an outer product.
class ExponentContexts {
 public:
  explicit ExponentContexts(uint32_t width) : columns_(width, kUnseen) {
    models_.fill(NibbleModel::Geometric(kRatio, kWeight));
  }

  // Calls code(model), which returns a magnitude. Elements come row by row.
  template <typename Code>
  uint32_t Visit(int largest, uint32_t row, uint32_t column, const Code& code) {
    if (row != current_) {
      deviation_ = 0;
      current_ = row;
    }
    int& mean = columns_[column];
    if (mean == kUnseen) mean = neighbor_;
    const int expected = std::clamp(mean + deviation_, 0, kMost << kFractionBits);
    const uint32_t magnitude = code(&models_[(expected + kHalf) >> kFractionBits]);
    const int distance =
        magnitude == 0 ? kMost
                       : std::min(largest - static_cast<int>(magnitude >> kMantissaBits), kMost);
    const int difference = (distance << kFractionBits) - mean;
    deviation_ += (difference - deviation_) >> kRate;
    mean += difference >> kRate;
    neighbor_ = mean;
    return magnitude;
  }

 private:
  static constexpr int kMost = 20;  // Greater distances, and those of zeros, count as this.
  static constexpr int kFractionBits = 4;
  static constexpr int kHalf = 1 << (kFractionBits - 1);
  static constexpr int kRate = 3;  // A new distance has the weight 2^-kRate.
  static constexpr int kUnseen = -1;
  static constexpr uint32_t kRatio = 192;
  static constexpr uint32_t kWeight = 4;

  std::array<NibbleModel, kMost + 1> models_;  // By the expected distance.
  std::vector<int> columns_;                   // Mean distances.
  int neighbor_ = 3 << kFractionBits;          // Of the column before: expected of one not seen.
  int deviation_ = 0;                          // Mean difference of the row from its columns.
  uint32_t current_ = 0;                       // Row.
};

void PutValues(Span<const float> values, const SupportPart& part, int largest,
               MagnitudeModels* magnitudes, RansEncoder* coder, BitWriter* rest) {
  const Grid grid = ContextGrid(part.grid, part.support);
  PutGrid(grid, coder);
  ExponentContexts exponents(std::max<uint32_t>(grid.width, 1));
  BitModel zero_signs;
  RansEncoder local = *coder;  // Which a compiler keeps in registers, as the next one.
  BitWriter local_rest = *rest;
  const auto put = [&](size_t i, uint32_t row, uint32_t column, BitModel* signs, bool expected) {
    const uint32_t magnitude = MagnitudeBits(values[i]);
    const int negative = FloatBits(values[i]) >= kFloatSignBit;
    exponents.Visit(largest, row, column, [&](NibbleModel* distances) {
      magnitudes->Put(magnitude, distances, &local, &local_rest);
      return magnitude;
    });
    const bool is_zero = magnitude == 0;
    local.Put(is_zero ? negative : negative != expected, is_zero ? &zero_signs : signs);
    return is_zero ? 0 : 1 - 2 * negative;
  };
  ForEachInContext(grid, part.support, put);
  *coder = local;
  *rest = local_rest;
}

Status GetValues(const SupportPart& part, int largest, MagnitudeModels* magnitudes,
                 RansDecoder* coder, BitReader* rest, Span<float> values) {
  Grid grid;
  TFC_RETURN_IF_ERROR(GetGrid("lossless", part.support, coder, &grid));
  ExponentContexts exponents(std::max<uint32_t>(grid.width, 1));
  BitModel zero_signs;
  RansDecoder local = *coder;  // Which a compiler keeps in registers, as the next one.
  BitReader local_rest = *rest;
  const auto get = [&](size_t i, uint32_t row, uint32_t column, BitModel* signs, bool expected) {
    const uint32_t magnitude = exponents.Visit(largest, row, column, [&](NibbleModel* distances) {
      return magnitudes->Get(distances, &local, &local_rest);
    });
    const bool is_zero = magnitude == 0;
    const int symbol = local.Get(is_zero ? &zero_signs : signs);
    const int negative = is_zero ? symbol : (symbol != 0) != expected;
    values[i] = FloatFromBits(magnitude | static_cast<uint32_t>(negative) << 31);
    return is_zero ? 0 : 1 - 2 * negative;
  };
  ForEachInContext(grid, part.support, get);
  *coder = local;
  *rest = local_rest;
  return OkStatus();
}

constexpr uint8_t kRaw = 0xFF;  // In place of the largest exponent.

// Bytes of the number of bytes of the bits that stand apart: as few as hold the greatest one.
size_t NumLengthBytes(size_t count) {
  const uint64_t most = PackedBytes(count, MagnitudeModels::kRestBits);
  return BytesOfBits(static_cast<uint64_t>(BitsFor(most + 1)));
}

void EncodePart(Span<const float> values, const SupportPart& part, Bytes* out) {
  const Precision precision = Precision::Of(values);
  MagnitudeModels magnitudes(precision);
  uint64_t num_rest_bits = 0;
  for (const float value : values) num_rest_bits += magnitudes.NumRestBits(MagnitudeBits(value));
  const uint64_t num_rest_bytes = BytesOfBits(num_rest_bits);

  const size_t begin = out->size();
  ByteWriter writer(out);
  writer.Write(precision.largest);
  writer.Write(precision.dropped);
  writer.Write(precision.unit);
  const size_t num_length_bytes = NumLengthBytes(values.size());
  std::memcpy(writer.Extend(num_length_bytes), &num_rest_bytes, num_length_bytes);
  unsigned char* const rest_begin = writer.Extend(num_rest_bytes);
  Bytes code;
  BitWriter rest(rest_begin, rest_begin + num_rest_bytes);
  RansEncoder coder(&code);
  PutValues(values, part, precision.largest, &magnitudes, &coder, &rest);
  coder.Finish(RansLanes(values.size()));
  writer.WriteArray(Span<const unsigned char>(code));
  if (out->size() - begin <= sizeof(kRaw) + values.size() * sizeof(float)) return;
  out->resize(begin);
  writer.Write(kRaw);
  writer.WriteArray(values);
}

Status DecodeRawPart(ByteReader reader, Span<float> values) {
  ByteSpan bytes;
  TFC_RETURN_IF_ERROR(reader.ReadSpan("values", values.size() * sizeof(float), &bytes));
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("lossless values"));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  if (AllFinite(values)) return OkStatus();
  return DataLoss("lossless: a value is not finite");
}

Status DecodePart(ByteSpan bytes, const SupportPart& part, Span<float> values) {
  ByteReader reader(bytes);
  Precision precision;
  TFC_RETURN_IF_ERROR(reader.Read("largest exponent", &precision.largest));
  if (precision.largest == kRaw) return DecodeRawPart(reader, values);
  TFC_RETURN_IF_ERROR(reader.Read("dropped bits", &precision.dropped));
  TFC_RETURN_IF_ERROR(reader.Read("unit", &precision.unit));
  if (precision.dropped > kMantissaBits) {
    return DataLoss("lossless: ", int{precision.dropped}, " bits of a mantissa dropped, at most ",
                    kMantissaBits, " expected");
  }
  ByteSpan length, rest_bytes, code;
  TFC_RETURN_IF_ERROR(reader.ReadSpan("length", NumLengthBytes(values.size()), &length));
  uint64_t num_rest_bytes = 0;
  std::memcpy(&num_rest_bytes, length.data(), length.size());
  TFC_RETURN_IF_ERROR(reader.ReadSpan("mantissas", num_rest_bytes, &rest_bytes));
  TFC_RETURN_IF_ERROR(reader.ReadSpan("code", reader.remaining(), &code));

  MagnitudeModels magnitudes(precision);
  BitReader rest(rest_bytes);
  RansDecoder coder(RansLanes(values.size()), code);
  TFC_RETURN_IF_ERROR(GetValues(part, precision.largest, &magnitudes, &coder, &rest, values));
  if (!magnitudes.is_valid()) return DataLoss("lossless: an exponent is below 0");
  size_t num_bytes_read;
  TFC_RETURN_IF_ERROR(rest.Finish("lossless mantissas", &num_bytes_read));
  if (num_bytes_read != num_rest_bytes) {
    return DataLoss("lossless: ", num_rest_bytes, " bytes of mantissas, ", num_bytes_read,
                    " expected");
  }
  return coder.ExpectEnd("lossless");
}

class Lossless : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support& support, const CodecContext& context,
                Bytes* out) const override {
    if (values.empty()) return OkStatus();
    const auto encode = [&](int64_t, int64_t begin, int64_t end, Bytes* part) {
      EncodePart(values.subspan(begin, end - begin),
                 SupportPart::Of(support, context.grid, begin, end), part);
    };
    EncodeParts(values.size(), context.executor, encode, out);
    return OkStatus();
  }

  Status EncodeAndDecode(Span<const float> values, const Support& support,
                         const CodecContext& context, Bytes* out,
                         Span<float> decoded) const override {
    std::copy(values.begin(), values.end(), decoded.begin());
    return Encode(values, support, context, out);
  }

  Status Decode(ByteSpan section, const Support& support, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    if (values.empty()) return reader.ExpectEnd("lossless");
    const auto decode = [&](int64_t, int64_t begin, int64_t end, ByteSpan part) {
      return DecodePart(part, SupportPart::Of(support, {}, begin, end),
                        values.subspan(begin, end - begin));
    };
    return DecodeParts("lossless", values.size(), context.executor, &reader, decode);
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    const uint64_t num_parts = NumParts(k);
    const uint64_t least_of_one_value = sizeof(kRaw) + sizeof(float);
    return (num_parts - 1) * sizeof(uint32_t) +
           std::max(num_parts * least_of_one_value, NibbleModel::MinBytes(k));
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return NumParts(k) * (sizeof(uint32_t) + sizeof(kRaw)) + uint64_t{k} * sizeof(float);
  }
  double MaxError(Span<const float>) const override { return 0; }
};

}  // namespace

Definition<ValueCodec> LosslessValue() {
  return {"float32, exact: models of exponents and signs in the context of rows and columns",
          {},
          Make<Lossless>,
          "exact",
          "at most 4 k + 5 ceil(k / 2^18); less by the entropy of exponents and signs"};
}

}  // namespace tfcompress
