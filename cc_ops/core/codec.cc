#include "core/codec.h"

namespace tfcompress {

Status CheckNumElements(const char* what, uint64_t n) {
  if (n <= kMaxElements) return OkStatus();
  return InvalidArgument("a ", what, " of ", n, " elements is above the limit of ", kMaxElements);
}

Status CheckSectionBytes(const char* what, ByteSpan section, uint64_t least) {
  if (section.size() >= least) return OkStatus();
  return DataLoss(what, " of ", section.size(), " bytes, what it holds takes at least ", least);
}

Status CheckIndices(Span<const uint32_t> indices, uint32_t n) {
  int64_t previous = -1;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] <= previous) {
      return InvalidArgument("indices must be strictly increasing: index ", i, " is ", indices[i],
                             " after ", previous);
    }
    previous = indices[i];
  }
  if (previous >= static_cast<int64_t>(n))
    return InvalidArgument("index ", previous, " is outside [0, ", n, ")");
  return OkStatus();
}

}  // namespace tfcompress
