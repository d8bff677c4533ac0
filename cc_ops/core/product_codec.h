// ProductCodec: an IndexCodec and a ValueCodec side by side, index before value. N index codecs and
// M value codecs compose freely, because a lossy index codec says what it decodes to, and the
// values are those of that support.
#ifndef TFCOMPRESS_CORE_PRODUCT_CODEC_H_
#define TFCOMPRESS_CORE_PRODUCT_CODEC_H_

#include "core/codec.h"

namespace tfcompress {

class ProductCodec : public SparseCodec {
 public:
  // Borrows both; they outlive it. `index` may be null when the support is always everything.
  ProductCodec(const IndexCodec* index, const ValueCodec* value) : index_(index), value_(value) {}

  Status Encode(const SparseInput& input, const CodecContext& context, Bytes* out,
                uint64_t* num_index_bytes, uint32_t* k, SparseTensor* decoded) const override;
  Status Decode(const SparseSections& sections, uint32_t k, const CodecContext& context,
                SparseTensor* out) const override;
  uint64_t MinEncodedBytes(uint32_t n, uint32_t k) const override;
  uint64_t MaxEncodedBytes(uint32_t n, uint32_t k) const override;

 private:
  const IndexCodec* index_;
  const ValueCodec* value_;
};

// Refuses sections that cannot hold k of n indices and `num_values` values, before anything is
// allocated for them. `index` may be null.
Status CheckSections(const IndexCodec* index, const ValueCodec& value,
                     const SparseSections& sections, uint32_t n, uint32_t k, uint32_t num_values);

// The two halves of its encoding, for those who code something else than elements.

// Appends the index section of `chosen`, which is not everything. Sets `decoded` to the support
// that receivers decode, and `source` to the one whose values are to be sent for it, in order (they
// differ for a naive Bloom filter). Both borrow from `chosen` or from `storage`.
Status EncodeSupport(const IndexCodec& index, Support chosen, const CodecContext& context,
                     Bytes* out, std::vector<uint32_t>* storage, Support* decoded, Support* source);

// Appends the value section of `values`; with `decoded`, overwrites it with what Decode yields.
Status EncodeValues(const ValueCodec& value, Span<const float> values, const Support& support,
                    const CodecContext& context, Bytes* out, std::vector<float>* decoded);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_PRODUCT_CODEC_H_
