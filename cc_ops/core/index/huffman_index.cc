// The bytes of the indices under a static Huffman code: DeepReduce 2 and 11.0.1. The code is that
// of the bytes of all of 0, ..., n - 1, so that decoders build it from n and no table is sent.

#include <algorithm>
#include <array>

#include "core/entropy/code_blocks.h"
#include "core/entropy/huffman.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

constexpr int kBytesPerIndex = 4;
constexpr uint32_t kNumByteValues = 256;

// Counts each byte in the little-endian numbers 0, ..., n - 1: byte p cycles through all values,
// and keeps each value for 256^p successive numbers.
std::array<uint64_t, kNumByteValues> CountBytesBelow(uint64_t n) {
  std::array<uint64_t, kNumByteValues> counts = {};
  for (int p = 0; p < kBytesPerIndex; ++p) {
    const uint64_t stay = uint64_t{1} << (8 * p);
    const uint64_t num_rounds = n / (kNumByteValues * stay);
    const uint64_t rest = n % (kNumByteValues * stay);
    for (uint64_t byte = 0; byte < kNumByteValues; ++byte)
      counts[byte] += num_rounds * stay + std::min(stay, rest - std::min(rest, byte * stay));
  }
  return counts;
}

HuffmanCode ByteCodeFor(uint32_t n) {
  const auto counts = CountBytesBelow(n);
  return HuffmanCode::FromCounts({counts.data(), counts.size()});
}

// Views indices as bytes.
ByteSpan BytesOf(Span<const uint32_t> indices, int64_t begin, int64_t end) {
  return {reinterpret_cast<const unsigned char*>(indices.data() + begin),
          static_cast<size_t>(kBytesPerIndex * (end - begin))};
}
Span<unsigned char> MutableBytesOf(std::vector<uint32_t>* indices, int64_t begin, int64_t end) {
  return {reinterpret_cast<unsigned char*>(indices->data() + begin),
          static_cast<size_t>(kBytesPerIndex * (end - begin))};
}

class HuffmanIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t n,
                                const CodecContext& context, Bytes* out) const override {
    if (indices.empty()) return DecodedIndices();
    const HuffmanCode code = ByteCodeFor(n);
    const auto k = static_cast<int64_t>(indices.size());
    std::vector<uint64_t> num_bits(static_cast<size_t>(NumBlocks(k, kCodeBlock)));
    ForEachCodeBlock(context.executor, k, [&](int64_t block, int64_t begin, int64_t end) {
      const uint8_t* lengths = code.lengths().data();
      uint64_t sum = 0;
      for (const unsigned char byte : BytesOf(indices, begin, end)) sum += lengths[byte];
      num_bits[block] = sum;
    });
    EncodeCodeBlocks(
        k, num_bits, context.executor,
        [&](int64_t, int64_t begin, int64_t end, BitWriter* writer) {
          code.Encode(BytesOf(indices, begin, end), writer);
        },
        out);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    indices->clear();
    ByteReader reader(section);
    if (k == 0) return reader.ExpectEnd("huffman");
    // An index has at least kBytesPerIndex bits.
    if (k > n || k > 8 / kBytesPerIndex * uint64_t{section.size()}) {
      return DataLoss("huffman: ", k, " indices do not fit in [0, ", n, ") or in ", section.size(),
                      " bytes");
    }
    indices->resize(k);
    const HuffmanDecoder decoder(ByteCodeFor(n));
    TFC_RETURN_IF_ERROR(
        DecodeCodeBlocks("huffman", k, context.executor, &reader,
                         [&](int64_t, int64_t begin, int64_t end, BitReader* bits) -> Status {
                           decoder.Decode(bits, MutableBytesOf(indices, begin, end));
                           return OkStatus();
                         }));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("huffman"));
    const Status valid = CheckIndices(*indices, n);
    return valid.ok() ? valid : DataLoss("huffman: ", valid.message());
  }

  // A word has at least a bit.
  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override {
    return BytesOfBits(uint64_t{kBytesPerIndex} * k);
  }
  uint64_t MaxEncodedBytes(uint32_t n, uint32_t k) const override {
    if (k == 0) return 0;
    const auto max_bits = static_cast<uint64_t>(kBytesPerIndex * ByteCodeFor(n).max_length());
    return BytesOfBits(max_bits * k) + MaxCodeBlockOverhead(k);
  }
};

}  // namespace

Definition<IndexCodec> HuffmanIndex() {
  return {"Bytes of the indices under a Huffman code that is known from n (DeepReduce 2, 11.0.1).",
          {},
          Make<HuffmanIndexCodec>,
          "exact",
          "by n: under 4 k where leading bytes are few"};
}

}  // namespace tfcompress
