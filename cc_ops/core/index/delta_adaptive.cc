// Delta coding of the indices with an adaptive prefix: SKCompress 5.2.

#include "core/entropy/adaptive_delta.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class DeltaAdaptiveIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t, const CodecContext& context,
                                Bytes* out) const override {
    EncodeAdaptiveDeltas(indices, context.executor, out);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    ByteReader reader(section);
    TFC_RETURN_IF_ERROR(DecodeAdaptiveDeltas(k, n, context.executor, &reader, indices));
    return reader.ExpectEnd("delta_adaptive");
  }

  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override { return MinAdaptiveDeltaBytes(k); }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override { return MaxAdaptiveDeltaBytes(k); }
};

}  // namespace

Definition<IndexCodec> DeltaAdaptiveIndex() {
  return {"Distances in few bits, with fixed or Huffman prefixes by exact cost (SKCompress 5.2).",
          {},
          Make<DeltaAdaptiveIndexCodec>,
          "exact",
          "the cheapest of its candidates, by the data"};
}

}  // namespace tfcompress
