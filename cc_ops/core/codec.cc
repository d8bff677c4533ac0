#include "core/codec.h"

#include <algorithm>

namespace tfcompress {

Status CheckNumElements(const char* what, uint64_t n) {
  if (n <= kMaxElements) return OkStatus();
  return InvalidArgument("a ", what, " of ", n, " elements is above the limit of ", kMaxElements);
}

Status CheckSectionBytes(const char* what, ByteSpan section, uint64_t least) {
  if (section.size() >= least) return OkStatus();
  return DataLoss(what, " of ", section.size(), " bytes, what it holds takes at least ", least);
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
