// Codecs whose payloads are floats that may be summed over ranks: decoding the sum gives the sum of
// the decoded payloads. An all-reduce can sum them, so the bytes of a step do not grow with the
// number of ranks. A linear codec is never framed.
//
// A step: Encode on every rank, sum the payloads, Recover on every rank. If the codec is not exact,
// a second round follows: the ranks sum their elements at the recovered indices, and the NumKept
// largest sums are applied (Sketched-SGD 5.1, Algorithm 3).
#ifndef TFCOMPRESS_CORE_LINEAR_CODEC_H_
#define TFCOMPRESS_CORE_LINEAR_CODEC_H_

#include <cstdint>
#include <vector>

#include "core/codec.h"
#include "core/joined_span.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Of a codec of matrices, whose step is that of linear/low_rank.h.
struct LowRankSettings {
  int rank = 0;             // 0: the codec takes vectors alone.
  bool warm_start = false;  // Whether a step begins with the right factors of the one before.
};

class LinearCodec {
 public:
  virtual ~LinearCodec() = default;

  // What it does to matrices. The functions below are for vectors.
  virtual LowRankSettings low_rank() const { return {}; }

  // Whether recovered values are exact sums, so that no second round is needed.
  virtual bool exact() const = 0;
  // Number of floats in the payload of n elements; the same on all ranks.
  virtual int64_t PayloadSize(int64_t n) const = 0;
  // Number of elements that Recover yields.
  virtual int64_t NumCandidates(int64_t n) const = 0;
  // Number of them that are applied after the second round.
  virtual int64_t NumKept(int64_t n) const = 0;

  // Overwrites `payload`, which must have PayloadSize(dense.size()) floats. The seed of the context
  // must be the same on all ranks. NaN or Inf anywhere in `dense` makes every float of the payload
  // NaN, and so the sum on every rank. The bits do not depend on the executor. Fails with
  // InvalidArgument for a payload of another size, or for more than kMaxElements elements.
  Status Encode(const JoinedSpan& dense, const CodecContext& context, Span<float> payload) const;

  // Overwrites `indices`, ascending, and `values` with NumCandidates(n) elements of the sum of the
  // encoded vectors. NaN or Inf anywhere in `summed` makes all values NaN, at the first indices.
  // The result is the same on all ranks that have the same `summed` and seed. Fails with
  // InvalidArgument for a payload of another size than PayloadSize(n), or for an n out of range.
  Status Recover(Span<const float> summed, int64_t n, const CodecContext& context,
                 std::vector<uint32_t>* indices, std::vector<float>* values) const;

  // Checks the arguments of both.
  Status CheckSizes(size_t payload_size, int64_t n) const;

 protected:
  // The same for finite numbers and checked sizes.
  virtual void EncodeFinite(const JoinedSpan& dense, const CodecContext& context,
                            Span<float> payload) const = 0;
  virtual void RecoverFinite(Span<const float> summed, int64_t n, const CodecContext& context,
                             std::vector<uint32_t>* indices, std::vector<float>* values) const = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_LINEAR_CODEC_H_
