// Supports that a seed implies: k of n elements at random, without replacement. Only the seed in
// the frame's header is sent. FORMAT.md, "Seeded supports".
#ifndef TFCOMPRESS_CORE_SEEDED_SUPPORT_H_
#define TFCOMPRESS_CORE_SEEDED_SUPPORT_H_

#include <cstdint>
#include <vector>

#include "core/codec.h"

namespace tfcompress {

// k distinct indices below n, ascending, k <= n: the first k of a permutation of [0, n) that the
// seed chooses. The same for every executor; O(k) time and memory.
std::vector<uint32_t> SeededSupport(uint32_t n, uint32_t k, uint64_t seed, Executor* executor);

// An index codec with an empty section, which decodes to SeededSupport.
class SeededSupportCodec : public IndexCodec {
 public:
  bool codes_any_support() const override { return false; }
  Status Encode(Span<const uint32_t> indices, uint32_t n, const CodecContext& context, Bytes* out,
                std::vector<uint32_t>* decoded) const override;
  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override;
  uint64_t MinEncodedBytes(uint32_t, uint32_t) const override { return 0; }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t) const override { return 0; }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SEEDED_SUPPORT_H_
