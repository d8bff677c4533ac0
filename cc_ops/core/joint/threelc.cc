// threelc: three values, five of them in a byte, and runs of zeros (3LC, Lim, Andersen and
// Kaminsky, section 3; DeepReduce 6.3 compares with its sparsity multiplier at 1).
//
// 3-value quantization: x becomes M round(x / M), M being the greatest magnitude times the
// multiplier, so that one of -M, 0, M is left. Quartic encoding: five digits 0, 1, 2 for -M, 0, M
// make a byte of 0 to 242. Zero-run encoding: 2 to 14 bytes 121, which are five zeros each, become
// one of the bytes 243 to 255. It codes the dense vector: elements outside the support are zeros,
// and the elements that do not decode to zero are the support for receivers.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/byte_io.h"
#include "core/concatenate.h"
#include "core/finite.h"
#include "core/float_order.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

// Digits of a quartic byte, and their weights.
constexpr int kDigits = 5;
constexpr unsigned char kPowers[kDigits] = {81, 27, 9, 3, 1};
constexpr unsigned char kFiveZeros = 121;
// Bytes from this one on are runs of 2 to kMaxZeroRun bytes of five zeros.
constexpr unsigned char kRunOfTwo = 243;
constexpr int64_t kMaxZeroRun = 14;

// Quartic bytes of a block; a run of zeros does not extend into the next block.
constexpr int64_t kQuarticBlock = kBlockElements;
// Coded bytes that are decoded at a time.
constexpr int64_t kCodedBlockBytes = kBlockElements;

int64_t NumQuarticBytes(uint32_t n) { return (int64_t{n} + kDigits - 1) / kDigits; }

// Quantization of values: to `scale` with their sign if their magnitude is at least half of it,
// else to 0.
struct ThreeValues {
  // Makes it from the bits of the greatest magnitude. Subnormal numbers count as zeros.
  ThreeValues(uint32_t largest_bits, double multiplier) {
    if (largest_bits < kLeastNormalBits) return;
    const double limit = FloatFromBits(kFloatInfinityBits - 1);
    scale = static_cast<float>(std::min(FloatFromBits(largest_bits) * multiplier, limit));
    const uint32_t half_bits = FloatBits(scale) - kLeastNormalBits;  // One exponent less.
    threshold_bits = std::max(half_bits, kLeastNormalBits);
  }

  bool IsSent(float value) const { return MagnitudeBits(value) >= threshold_bits; }
  // -1, 0 or 1.
  int Digit(float value) const { return IsSent(value) ? (IsNegative(value) ? -1 : 1) : 0; }

  float scale = 0;
  uint32_t threshold_bits = kFloatInfinityBits;
};

// Makes the quartic bytes of dense values, the last one padded with zeros.
void QuantizeDense(const ThreeValues& quantizer, Span<const float> values, unsigned char* quartic) {
  std::memset(quartic, kFiveZeros, (values.size() + kDigits - 1) / kDigits);
  // Most values become 0: check a whole stretch of them at once.
  constexpr size_t kStretch = 8 * kDigits;
  for (size_t begin = 0; begin < values.size(); begin += kStretch) {
    const size_t end = std::min(values.size(), begin + kStretch);
    uint32_t any = 0;
    for (size_t i = begin; i < end; ++i) any |= quantizer.IsSent(values[i]);
    if (!any) continue;
    for (size_t i = begin; i < end; ++i) {
      quartic[i / kDigits] +=
          static_cast<unsigned char>(quantizer.Digit(values[i]) * kPowers[i % kDigits]);
    }
  }
}

// The same for elements [first, first + num_values) of a sparse vector.
void QuantizeSparse(const ThreeValues& quantizer, Span<const float> values,
                    Span<const uint32_t> indices, int64_t first, size_t num_values,
                    unsigned char* quartic) {
  std::memset(quartic, kFiveZeros, (num_values + kDigits - 1) / kDigits);
  const uint32_t* index = std::lower_bound(indices.begin(), indices.end(), first);
  const float* value = values.begin() + (index - indices.begin());
  for (; index != indices.end() && *index - first < static_cast<int64_t>(num_values); ++index) {
    const int64_t i = *index - first;
    quartic[i / kDigits] +=
        static_cast<unsigned char>(quantizer.Digit(*value++) * kPowers[i % kDigits]);
  }
}

// Number of consecutive bytes 121 from `quartic` on, before `end`.
int64_t ZeroRunLength(const unsigned char* quartic, const unsigned char* end) {
  constexpr uint64_t kEightZeros = 0x0101010101010101u * kFiveZeros;
  const unsigned char* byte = quartic;
  while (end - byte >= 8 && LoadUnaligned<uint64_t>(byte) == kEightZeros) byte += 8;
  while (byte < end && *byte == kFiveZeros) ++byte;
  return byte - quartic;
}

// The byte that stands for a run of 1 to kMaxZeroRun bytes of five zeros.
unsigned char ZeroRunCode(int64_t length) {
  return static_cast<unsigned char>(length == 1 ? kFiveZeros : kRunOfTwo + length - 2);
}

Bytes EncodeZeroRuns(Span<const unsigned char> quartic) {
  Bytes coded(quartic.size());
  unsigned char* out = coded.data();
  for (const unsigned char* byte = quartic.begin(); byte < quartic.end();) {
    if (*byte != kFiveZeros) {
      *out++ = *byte++;
      continue;
    }
    int64_t run = ZeroRunLength(byte, quartic.end());
    byte += run;
    for (; run >= kMaxZeroRun; run -= kMaxZeroRun) *out++ = ZeroRunCode(kMaxZeroRun);
    if (run > 0) *out++ = ZeroRunCode(run);
  }
  coded.resize(out - coded.data());
  return coded;
}

// The decoded content of a coded byte.
struct CodedByte {
  uint8_t num_quartic_bytes;
  uint8_t num_nonzero;
  int8_t digits[kDigits];  // -1, 0 or 1; only for bytes that are not runs.
};

constexpr std::array<CodedByte, 256> MakeCodedBytes() {
  std::array<CodedByte, 256> table = {};
  for (int byte = 0; byte < 256; ++byte) {
    CodedByte& entry = table[byte];
    entry.num_quartic_bytes = static_cast<uint8_t>(byte < kRunOfTwo ? 1 : byte - kRunOfTwo + 2);
    for (int i = 0; byte < kRunOfTwo && i < kDigits; ++i) {
      entry.digits[i] = static_cast<int8_t>(byte / kPowers[i] % 3 - 1);
      entry.num_nonzero += entry.digits[i] != 0;
    }
  }
  return table;
}

constexpr std::array<CodedByte, 256> kCodedBytes = MakeCodedBytes();

// Begin of a block of coded bytes, in quartic bytes and in sent elements.
struct Offsets {
  int64_t quartic = 0;
  int64_t sent = 0;
};

// Returns the offsets of each block of coded bytes, and the totals.
std::vector<Offsets> FindOffsets(ByteSpan coded, Executor* executor) {
  std::vector<Offsets> offsets(NumBlocks(coded.size(), kCodedBlockBytes) + 1);
  auto count = [&](int64_t block, int64_t begin, int64_t end) {
    Offsets sums;
    for (int64_t i = begin; i < end; ++i) {
      sums.quartic += kCodedBytes[coded[i]].num_quartic_bytes;
      sums.sent += kCodedBytes[coded[i]].num_nonzero;
    }
    offsets[block + 1] = sums;
  };
  ForEachBlock(executor, coded.size(), count, kCodedBlockBytes);
  for (size_t i = 1; i < offsets.size(); ++i) {
    offsets[i].quartic += offsets[i - 1].quartic;
    offsets[i].sent += offsets[i - 1].sent;
  }
  return offsets;
}

// Decodes the sent elements of a block of coded bytes.
void DecodeBlock(ByteSpan coded, float scale, int64_t first_element, uint32_t* indices,
                 float* values) {
  for (unsigned char byte : coded) {
    const CodedByte& entry = kCodedBytes[byte];
    if (entry.num_nonzero > 0) {
      for (int i = 0; i < kDigits; ++i) {
        if (entry.digits[i] == 0) continue;
        *indices++ = static_cast<uint32_t>(first_element + i);
        *values++ = FloatFromBits(FloatBits(scale) | (entry.digits[i] < 0 ? kFloatSignBit : 0));
      }
    }
    first_element += kDigits * entry.num_quartic_bytes;
  }
}

Status DecodeSection(ByteSpan section, uint32_t k, Executor* executor, SparseTensor* out) {
  out->everything = false;
  ByteReader reader(section);
  float scale = 0;
  ByteSpan coded;
  TFC_RETURN_IF_ERROR(reader.Read("scale", &scale));
  TFC_RETURN_IF_ERROR(reader.ReadSpan("digits", reader.remaining(), &coded));
  // The bits of a negative number are greater than those of infinity.
  if (FloatBits(scale) >= kFloatInfinityBits) return DataLoss("the scale is ", scale);
  const std::vector<Offsets> offsets = FindOffsets(coded, executor);
  if (offsets.back().quartic != NumQuarticBytes(out->n)) {
    return DataLoss(offsets.back().quartic, " groups of five elements, ", NumQuarticBytes(out->n),
                    " expected");
  }
  if (offsets.back().sent != k) {
    return DataLoss(offsets.back().sent, " elements that are not zero, ", k, " expected");
  }
  out->indices.resize(k);
  out->values.resize(k);
  auto decode = [&](int64_t block, int64_t begin, int64_t end) {
    const Offsets& first = offsets[block];
    DecodeBlock(coded.subspan(begin, end - begin), scale, kDigits * first.quartic,
                out->indices.data() + first.sent, out->values.data() + first.sent);
  };
  ForEachBlock(executor, coded.size(), decode, kCodedBlockBytes);
  if (k > 0 && out->indices.back() >= out->n) {
    return DataLoss("element ", out->indices.back(), " is outside [0, ", out->n, ")");
  }
  return OkStatus();
}

class Threelc : public SparseCodec {
 public:
  explicit Threelc(const Params& params) : multiplier_(params.Float("multiplier")) {}

  // Every element takes its digit.
  bool takes_rows() const override { return false; }

  Result<uint32_t> Encode(Span<const float> values, const Support& support,
                          const CodecContext& context, Bytes* out) const override {
    const ThreeValues quantizer(MaxMagnitude(values, context.executor), multiplier_);
    const std::vector<Bytes> blocks = EncodeBlocks(values, support, quantizer, context.executor);
    uint32_t k = 0;
    for (const Bytes& block : blocks) {
      for (unsigned char byte : block) k += kCodedBytes[byte].num_nonzero;
    }
    if (k == 0) return k;
    ByteWriter(out).Write(quantizer.scale);
    Concatenate(blocks, out);
    return k;
  }

  // Decodes the support from the digits, whatever `out->everything` was.
  Status Decode(ByteSpan section, uint32_t k, const CodecContext& context,
                SparseTensor* out) const override {
    return DecodeSection(section, k, context.executor, out).WithContext("threelc");
  }

  // Five elements a byte, and as many zeros as runs hold.
  uint64_t MinEncodedBytes(uint32_t n, uint32_t k) const override {
    const auto num_quartic_bytes = static_cast<uint64_t>(NumQuarticBytes(n));
    return sizeof(float) + std::max<uint64_t>((uint64_t{k} + kDigits - 1) / kDigits,
                                              num_quartic_bytes / kMaxZeroRun);
  }
  uint64_t MaxEncodedBytes(uint32_t n, uint32_t) const override {
    return sizeof(float) + static_cast<uint64_t>(NumQuarticBytes(n));
  }

 private:
  static std::vector<Bytes> EncodeBlocks(Span<const float> values, const Support& support,
                                         const ThreeValues& quantizer, Executor* executor) {
    const int64_t num_quartic_bytes = NumQuarticBytes(support.n());
    std::vector<Bytes> blocks(NumBlocks(num_quartic_bytes, kQuarticBlock));
    auto encode = [&](int64_t block, int64_t begin, int64_t end) {
      Bytes quartic(end - begin);
      const int64_t first = begin * kDigits;
      const auto num_values =
          static_cast<size_t>(std::min<int64_t>(support.n(), end * kDigits) - first);
      if (support.everything()) {
        QuantizeDense(quantizer, values.subspan(first, num_values), quartic.data());
      } else {
        QuantizeSparse(quantizer, values, support.indices(), first, num_values, quartic.data());
      }
      blocks[block] = EncodeZeroRuns(quartic);
    };
    ForEachBlock(executor, num_quartic_bytes, encode, kQuarticBlock);
    return blocks;
  }

  double multiplier_;
};

}  // namespace

Definition<SparseCodec> ThreelcJoint() {
  return {"three values, quartic and zero-run encoding (3LC 3; DeepReduce 6.3)",
          {{"multiplier", ParamKind::kFloat, "1",
            "sparsity multiplier: the values are 0 and the greatest magnitude times it, both signs",
            1, 1.999}},
          Make<Threelc>,
          "half the scale: multiplier max|x| / 2",
          "4 + n / 5, less for runs of zeros"};
}

}  // namespace tfcompress
