#include "core/by_magnitude.h"

#include <algorithm>
#include <utility>

namespace tfcompress {

Status SparsifierByMagnitude::Select(Span<const float> dense, const CodecContext& context,
                                     std::vector<uint32_t>* indices) const {
  const auto read = [&](int64_t begin, int64_t count, float* elements) {
    std::copy_n(dense.data() + begin, count, elements);
  };
  const uint32_t least = LeastMagnitude(static_cast<int64_t>(dense.size()), read);
  Candidates candidates = CollectAtLeast(dense, least, context.executor);
  Choose(dense, least, context.executor, &candidates);
  *indices = std::move(candidates.indices);
  return OkStatus();
}

}  // namespace tfcompress
