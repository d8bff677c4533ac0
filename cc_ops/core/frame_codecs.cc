#include "core/frame_codecs.h"

#include "core/registry.h"

namespace tfcompress {

Result<FrameCodecs> FindCodecs(const FrameHeader& header) {
  const bool has_indices =
      header.support == SupportKind::kIndexSection || header.support == SupportKind::kRows;
  const FrameCodecs codecs = {has_indices ? DecoderById<IndexCodec>(header.index_id) : nullptr,
                              DecoderById<ValueCodec>(header.value_id)};
  if (has_indices && codecs.index == nullptr)
    return DataLoss("unknown index codec id ", int{header.index_id});
  if (codecs.value == nullptr) return DataLoss("unknown value codec id ", int{header.value_id});
  return codecs;
}

Status CheckSections(const FrameCodecs& codecs, const FrameSections& sections, uint32_t n,
                     uint32_t k, uint32_t num_values) {
  if (codecs.index != nullptr) {
    TFC_RETURN_IF_ERROR(
        CheckSectionBytes("index section", sections.indices, codecs.index->MinEncodedBytes(n, k)));
  }
  return CheckSectionBytes("value section", sections.values,
                           codecs.value->MinEncodedBytes(num_values));
}

Status EncodeValues(const ValueCodec& value, Span<const float> values, const Support& support,
                    const CodecContext& context, Bytes* out, std::vector<float>* decoded) {
  if (decoded == nullptr) return value.Encode(values, support, context, out);
  decoded->resize(support.size());
  return value.EncodeAndDecode(values, support, context, out, Span<float>(*decoded));
}

}  // namespace tfcompress
