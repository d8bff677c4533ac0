#include "core/linear_codec.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/float_mode.h"

namespace tfcompress {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

Status LinearCodec::CheckSizes(size_t payload_size, int64_t n) const {
  if (n < 0 || n > static_cast<int64_t>(kMaxElements)) {
    return InvalidArgument("a vector of ", n, " elements is outside [0, ", kMaxElements, "]");
  }
  if (payload_size == static_cast<size_t>(PayloadSize(n))) return OkStatus();
  return InvalidArgument("a payload of ", payload_size, " floats, expected ", PayloadSize(n),
                         " for ", n, " elements");
}

Status LinearCodec::Encode(const JoinedSpan& dense, const CodecContext& context,
                           Span<float> payload) const {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckSizes(payload.size(), dense.size()));
  if (dense.AllFinite(context.executor)) {
    EncodeFinite(dense, context, payload);
  } else {
    std::fill(payload.begin(), payload.end(), kNaN);
  }
  return OkStatus();
}

Status LinearCodec::Recover(Span<const float> summed, int64_t n, const CodecContext& context,
                            std::vector<uint32_t>* indices, std::vector<float>* values) const {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckSizes(summed.size(), n));
  if (JoinedSpan(summed).AllFinite(context.executor)) {
    RecoverFinite(summed, n, context, indices, values);
  } else {
    indices->resize(static_cast<size_t>(NumCandidates(n)));
    std::iota(indices->begin(), indices->end(), 0u);
    values->assign(indices->size(), kNaN);
  }
  return OkStatus();
}

}  // namespace tfcompress
