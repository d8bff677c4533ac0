#include "core/pieces.h"

#include <vector>

#include "core/float_mode.h"
#include "core/simd.h"

namespace tfcompress {
namespace {

// The vectors from element `begin` on.
template <typename T>
std::vector<T*> From(int64_t begin, Span<T* const> vectors) {
  std::vector<T*> pointers;
  for (T* vector : vectors) pointers.push_back(vector + begin);
  return pointers;
}

// Appends the frame of a piece, and adds its elements to `num_sent`.
Status EncodePiece(const Compressor& compressor, Span<const float> piece, const MemorySlots& slots,
                   const CodecContext& context, Bytes* frames, int64_t* num_sent) {
  const size_t begin = frames->size();
  const GradientView view = {piece.data(), DType::kFloat32, piece.size()};
  TFC_RETURN_IF_ERROR(EncodeFrame(compressor, view, slots, context, frames));
  return CountSent({frames->data() + begin, frames->size() - begin}, num_sent);
}

}  // namespace

Status CheckCuts(Span<const int64_t> cuts, uint64_t n) {
  bool ascends =
      cuts.size() >= 2 && cuts[0] == 0 && static_cast<uint64_t>(cuts[cuts.size() - 1]) == n;
  for (size_t i = 1; ascends && i < cuts.size(); ++i) ascends = cuts[i - 1] <= cuts[i];
  if (ascends) return OkStatus();
  return InvalidArgument("cuts must ascend from 0 to the ", n, " elements of the gradient");
}

Status EncodePieces(const Compressor& compressor, Span<const float> gradient,
                    Span<const int64_t> cuts, int64_t own, const MemorySlots& slots,
                    const CodecContext& context, Bytes* frames, PieceCounts* counts) {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckCuts(cuts, gradient.size()));
  counts->num_sent = 0;
  for (size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
    const int64_t begin = cuts[rank];
    const auto n = static_cast<uint64_t>(cuts[rank + 1] - begin);
    counts->num_bytes[rank] = 0;
    if (static_cast<int64_t>(rank) == own) {
      ForEachBlock(context.executor, n, [&](int64_t, int64_t from, int64_t to) {
        compressor.memory().CompensateRange(gradient, slots, begin + from, to - from);
      });
    } else if (n > 0) {
      const std::vector<const float*> before = From(begin, slots.before);
      const std::vector<float*> after = From(begin, slots.after);
      const size_t num_bytes_before = frames->size();
      CodecContext piece_context = context;
      piece_context.grid = context.grid.From(begin);
      TFC_RETURN_IF_ERROR(EncodePiece(compressor, gradient.subspan(begin, n), {before, after},
                                      piece_context, frames, &counts->num_sent));
      counts->num_bytes[rank] = static_cast<int64_t>(frames->size() - num_bytes_before);
    }
  }
  return OkStatus();
}

Status EncodeSum(const Compressor& compressor, const float* gradient, Span<float* const> slots,
                 Span<float> others, const CodecContext& context, Bytes* frame, int64_t* num_sent) {
  const FloatModeScope mode;
  *num_sent = 0;
  if (slots.size() > 0) {
    const std::vector<const float*> before(slots.begin(), slots.end());
    return EncodePiece(compressor, others, {before, slots, Compensation::kPlainSum}, context, frame,
                       num_sent);
  }
  ForEachBlock(context.executor, others.size(), [&](int64_t, int64_t begin, int64_t end) {
    Vectorized([count = end - begin, sums = others.data() + begin, own = gradient + begin] {
      for (int64_t i = 0; i < count; ++i) sums[i] += own[i];
    });
  });
  return EncodePiece(compressor, others, {}, context, frame, num_sent);
}

}  // namespace tfcompress
