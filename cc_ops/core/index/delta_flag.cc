// Delta coding of the indices with length flags: the gradient key encoder of FastSGD (3.3,
// Algorithm 2). With M the bits of the largest delta, a flag of l bits chooses among the widths
// M/2^l, 2M/2^l, ..., M, rounded up.

#include "core/entropy/prefixed_deltas.h"
#include "core/index/flag_scheme.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

DeltaScheme SchemeOf(int flag_bits, int largest_bits) {
  uint32_t next_words[kMaxHuffmanBits + 1];
  DeltaScheme scheme;
  SetFlagScheme(flag_bits, largest_bits, next_words, &scheme);
  return scheme;
}

class DeltaFlagIndexCodec : public IndexCodec {
 public:
  explicit DeltaFlagIndexCodec(const Params& params)
      : flag_bits_(static_cast<int>(params.Int("flag_bits"))) {}

  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t, const CodecContext& context,
                                Bytes* out) const override {
    if (indices.empty()) return DecodedIndices();
    const std::vector<DeltaBitCounts> blocks = CountDeltaBits(indices, context.executor);
    const int largest_bits = LargestDeltaBits(Sum(blocks).data());
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(flag_bits_));
    writer.Write(static_cast<uint8_t>(largest_bits));
    EncodePrefixedDeltas(indices, blocks, SchemeOf(flag_bits_, largest_bits), context.executor,
                         out);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    indices->clear();
    ByteReader reader(section);
    if (k == 0) return reader.ExpectEnd("delta_flag");
    uint8_t flag_bits = 0;
    uint8_t largest_bits = 0;
    TFC_RETURN_IF_ERROR(reader.Read("delta_flag bits of a flag", &flag_bits));
    TFC_RETURN_IF_ERROR(reader.Read("delta_flag bits of a delta", &largest_bits));
    if (!IsFlagScheme(flag_bits, largest_bits)) {
      return DataLoss("delta_flag: flags of ", int{flag_bits}, " bits, deltas of ",
                      int{largest_bits});
    }
    TFC_RETURN_IF_ERROR(DecodePrefixedDeltas("delta_flag", k, n, SchemeOf(flag_bits, largest_bits),
                                             context.executor, &reader, indices));
    return reader.ExpectEnd("delta_flag");
  }

  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override { return MinFlagDeltaBytes(k); }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override {
    return MaxFlagDeltaBytes(flag_bits_, k);
  }

 private:
  int flag_bits_;
};

}  // namespace

Definition<IndexCodec> DeltaFlagIndex() {
  return {"Distances in one of 2^l widths, which a flag of l bits tells (FastSGD, Algorithm 2).",
          {{"flag_bits", ParamKind::kInt, "2", "l, the bits of a flag", 1, kMaxFlagBits}},
          Make<DeltaFlagIndexCodec>,
          "exact",
          "k (flag_bits + 1 to 2^flag_bits steps of the widest gap) / 8"};
}

}  // namespace tfcompress
