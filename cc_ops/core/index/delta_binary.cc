// Delta-binary coding of the indices: SketchML 3.4, SKCompress 5.1.

#include "core/entropy/delta_bytes.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class DeltaBinaryIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t, const CodecContext& context,
                                Bytes* out) const override {
    EncodeDeltaBytes(indices, context.executor, out);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    ByteReader reader(section);
    TFC_RETURN_IF_ERROR(DecodeDeltaBytes(k, n, context.executor, &reader, indices));
    return reader.ExpectEnd("delta_binary");
  }

  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override { return MinDeltaBytes(k); }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override { return MaxDeltaBytes(k); }
};

}  // namespace

Definition<IndexCodec> DeltaBinaryIndex() {
  return {"Distances in 1 to 4 bytes with 2-bit length flags (SketchML 3.4, SKCompress 5.1).",
          {},
          Make<DeltaBinaryIndexCodec>,
          "exact",
          "k / 4, and 1 to 4 for each index"};
}

}  // namespace tfcompress
