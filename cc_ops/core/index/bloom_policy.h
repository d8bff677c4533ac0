// Policies that choose indices among the positives of a Bloom filter (DeepReduce 4 and 10.4), and
// the header of an index section of `bloom`.
#ifndef TFCOMPRESS_CORE_INDEX_BLOOM_POLICY_H_
#define TFCOMPRESS_CORE_INDEX_BLOOM_POLICY_H_

#include <cstdint>

namespace tfcompress {

// The numbers are part of the wire format.
enum class BloomPolicy : uint8_t { kNaive = 0, kP0, kP1, kP2, kLeftmost, kMiddle, kRightmost };

inline constexpr int kNumBloomPolicies = 7;
inline constexpr const char* kBloomPolicyNames[kNumBloomPolicies] = {
    "naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost"};

// Whether the choice depends only on the number of positives before an index.
inline bool ChoosesByRank(BloomPolicy policy) {
  return policy != BloomPolicy::kP1 && policy != BloomPolicy::kP2;
}
// Whether the sent values are those at the decoded indices; with `naive` they are those at the
// original indices, in order.
inline bool GathersDecoded(BloomPolicy policy) { return policy != BloomPolicy::kNaive; }

// The policy and the number of hashes (a byte each), and the number of bits (four bytes).
inline constexpr uint64_t kBloomHeaderBytes = 6;

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_INDEX_BLOOM_POLICY_H_
