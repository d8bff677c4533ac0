#include "core/product_codec.h"

#include <utility>

namespace tfcompress {
namespace {

std::vector<float> Gather(Span<const float> dense, Span<const uint32_t> indices,
                          Executor* executor) {
  std::vector<float> values(indices.size());
  ForEachBlock(executor, indices.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = dense[indices[i]];
  });
  return values;
}

// No element is left: no section is written.
Status EncodeNothing(const Support& support, uint64_t* num_index_bytes, uint32_t* k,
                     SparseTensor* decoded) {
  *num_index_bytes = 0;
  *k = 0;
  if (decoded != nullptr) *decoded = {support.n(), false, {}, {}};
  return OkStatus();
}

}  // namespace

Status EncodeSupport(const IndexCodec& index, Support chosen, const CodecContext& context,
                     Bytes* out, std::vector<uint32_t>* storage, Support* decoded,
                     Support* source) {
  TFC_RETURN_IF_ERROR(index.Encode(chosen.indices(), chosen.n(), context, out, storage));
  *decoded = index.exact() ? chosen : Support(chosen.n(), *storage);
  *source = index.gathers_decoded() ? *decoded : chosen;
  return OkStatus();
}

Status EncodeValues(const ValueCodec& value, Span<const float> values, const Support& support,
                    const CodecContext& context, Bytes* out, std::vector<float>* decoded) {
  const size_t begin = out->size();
  TFC_RETURN_IF_ERROR(value.Encode(values, support, context, out));
  if (decoded == nullptr) return OkStatus();
  decoded->resize(support.size());
  const ByteSpan section(out->data() + begin, out->size() - begin);
  return value.Decode(section, support, context, Span<float>(*decoded));
}

Status CheckSections(const IndexCodec* index, const ValueCodec& value,
                     const SparseSections& sections, uint32_t n, uint32_t k, uint32_t num_values) {
  if (index != nullptr) {
    TFC_RETURN_IF_ERROR(
        CheckSectionBytes("index section", sections.indices, index->MinEncodedBytes(n, k)));
  }
  return CheckSectionBytes("value section", sections.values, value.MinEncodedBytes(num_values));
}

Status ProductCodec::Encode(const SparseInput& input, const CodecContext& context, Bytes* out,
                            uint64_t* num_index_bytes, uint32_t* k, SparseTensor* decoded) const {
  const size_t begin = out->size();
  Support support = input.support;
  std::vector<uint32_t> changed;
  std::vector<float> gathered;
  Span<const float> values = input.dense;
  std::vector<uint32_t> narrowed;
  if (!support.everything()) {
    if (value_->narrows() && index_->codes_any_support()) {
      narrowed.assign(support.indices().begin(), support.indices().end());
      value_->Narrow(input.dense, &narrowed);
      support = Support(support.n(), narrowed);
    }
    if (support.size() == 0) return EncodeNothing(support, num_index_bytes, k, decoded);
    Support source = support;
    TFC_RETURN_IF_ERROR(EncodeSupport(*index_, support, context, out, &changed, &support, &source));
    if (source.indices().data() == input.support.indices().data() && !input.gathered.empty()) {
      values = input.gathered;
    } else {
      gathered = Gather(input.dense, source.indices(), context.executor);
      values = gathered;
    }
  }
  *num_index_bytes = out->size() - begin;
  *k = static_cast<uint32_t>(support.size());
  TFC_RETURN_IF_ERROR(EncodeValues(*value_, values, support, context, out,
                                   decoded == nullptr ? nullptr : &decoded->values));
  if (decoded == nullptr) return OkStatus();

  decoded->n = support.n();
  decoded->everything = support.everything();
  if (!support.everything()) {
    if (changed.empty()) changed.assign(support.indices().begin(), support.indices().end());
    decoded->indices = std::move(changed);
  }
  return OkStatus();
}

Status ProductCodec::Decode(const SparseSections& sections, uint32_t k, const CodecContext& context,
                            SparseTensor* out) const {
  TFC_RETURN_IF_ERROR(
      CheckSections(out->everything ? nullptr : index_, *value_, sections, out->n, k, k));
  if (!out->everything) {
    TFC_RETURN_IF_ERROR(index_->Decode(sections.indices, out->n, k, context, &out->indices)
                            .WithContext("index section"));
  }
  out->values.resize(k);
  return value_->Decode(sections.values, out->support(), context, Span<float>(out->values))
      .WithContext("value section");
}

uint64_t ProductCodec::MinEncodedBytes(uint32_t n, uint32_t k) const {
  return (index_ == nullptr ? 0 : index_->MinEncodedBytes(n, k)) + value_->MinEncodedBytes(k);
}

uint64_t ProductCodec::MaxEncodedBytes(uint32_t n, uint32_t k) const {
  return (index_ == nullptr ? 0 : index_->MaxEncodedBytes(n, k)) + value_->MaxEncodedBytes(k);
}

}  // namespace tfcompress
