// raw: the indices as k uint32.

#include "core/byte_io.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class RawIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t, const CodecContext&,
                                Bytes* out) const override {
    ByteWriter(out).WriteArray(indices);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext&,
                std::vector<uint32_t>* indices) const override {
    ByteReader reader(section);
    TFC_RETURN_IF_ERROR(reader.ReadArray("raw indices", k, indices));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("raw indices"));
    const Status valid = CheckIndices(*indices, n);
    return valid.ok() ? valid : DataLoss("raw indices: ", valid.message());
  }

  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override {
    return uint64_t{k} * sizeof(uint32_t);
  }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override {
    return uint64_t{k} * sizeof(uint32_t);
  }
};

}  // namespace

Definition<IndexCodec> RawIndex() {
  return {
      "Four bytes an index: the baseline of every paper.", {}, Make<RawIndexCodec>, "exact", "4 k"};
}

}  // namespace tfcompress
