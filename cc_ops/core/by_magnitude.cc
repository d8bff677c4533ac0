#include "core/by_magnitude.h"

#include <utility>

namespace tfcompress {

ReadElements ReadFrom(Span<const float> dense) {
  return [dense](Span<const uint32_t> positions, float* elements) {
    for (size_t i = 0; i < positions.size(); ++i) elements[i] = dense[positions[i]];
  };
}

Status SparsifierByMagnitude::Select(Span<const float> dense, const CodecContext& context,
                                     std::vector<uint32_t>* indices) const {
  const uint32_t least = LeastMagnitude(static_cast<int64_t>(dense.size()), ReadFrom(dense));
  Candidates candidates = CollectAtLeast(dense, least, context.executor);
  Choose(dense, least, context.executor, &candidates);
  *indices = std::move(candidates.indices);
  return OkStatus();
}

}  // namespace tfcompress
