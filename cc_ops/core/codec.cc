#include "core/codec.h"

#include <algorithm>

#include "core/simd.h"
#include "core/strictly_increasing.h"

namespace tfcompress {

Status CheckNumElements(const char* what, uint64_t n) {
  if (n <= kMaxElements) return OkStatus();
  return InvalidArgument("a ", what, " of ", n, " elements is above the limit of ", kMaxElements);
}

Status CheckSectionBytes(const char* what, ByteSpan section, uint64_t least) {
  if (section.size() >= least) return OkStatus();
  return DataLoss(what, " of ", section.size(), " bytes, what it holds takes at least ", least);
}

void Subtract(const float* decoded, int64_t count, float* pending) {
  Vectorized([=] {
    TFC_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) pending[i] -= decoded[i];
  });
}

Status ForEachDecodeChunk(int64_t k, Executor* executor,
                          const std::function<Status(int64_t begin, int64_t end)>& body) {
  std::vector<Status> statuses(static_cast<size_t>(NumBlocks(k)));
  ForEachBlock(executor, k, [&](int64_t block, int64_t begin, int64_t end) {
    for (; begin < end && statuses[block].ok(); begin += kDecodeChunk)
      statuses[block] = body(begin, std::min(end, begin + kDecodeChunk));
  });
  for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
  return OkStatus();
}

Status ValueCodec::Encode(Span<const float> values, const Support&, const CodecContext& context,
                          Bytes* out) const {
  const ChunkEncoder encoder = OpenEncoder(static_cast<uint32_t>(values.size()), context, out);
  ForEachChunk(context.executor, values.size(), encoder.chunk, [&](int64_t begin, int64_t end) {
    encoder.encode(begin, end, values.data() + begin, nullptr);
  });
  return OkStatus();
}

Status ValueCodec::Decode(ByteSpan section, const Support& support, const CodecContext& context,
                          Span<float> values) const {
  ChunkDecoder decode;
  TFC_RETURN_IF_ERROR(Open(section, static_cast<uint32_t>(support.size()), &decode));
  return ForEachDecodeChunk(values.size(), context.executor, [&](int64_t begin, int64_t end) {
    return decode(begin, end, values.data() + begin);
  });
}

Status ValueCodec::EncodeAndDecode(Span<const float> values, const Support& support,
                                   const CodecContext& context, Bytes* out,
                                   Span<float> decoded) const {
  const size_t begin = out->size();
  TFC_RETURN_IF_ERROR(Encode(values, support, context, out));
  const ByteSpan section(out->data() + begin, out->size() - begin);
  return Decode(section, support, context, decoded);
}

void ValueCodec::MaxErrors(Span<const float> values, Span<double> errors) const {
  std::fill(errors.begin(), errors.end(), MaxError(values));
}

double LargestOfMaxErrors(const ValueCodec& codec, Span<const float> values) {
  std::vector<double> errors(values.size());
  codec.MaxErrors(values, Span<double>(errors));
  return errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
}

Status CheckIndices(Span<const uint32_t> indices, uint32_t n) {
  if (!StrictlyIncreasing(indices)) {
    size_t i = 1;
    while (indices[i] > indices[i - 1]) ++i;
    return InvalidArgument("indices must be strictly increasing: index ", i, " is ", indices[i],
                           " after ", indices[i - 1]);
  }
  const size_t size = indices.size();
  if (size > 0 && indices[size - 1] >= n)
    return InvalidArgument("index ", indices[size - 1], " is outside [0, ", n, ")");
  return OkStatus();
}

}  // namespace tfcompress
