// Policies that choose indices among the positives of a Bloom filter (DeepReduce 4 and 10.4), and
// the header of an index section of `bloom`.
//
// p1 and p2 take the k positives of largest priority, ties by lower index. The priorities of p1 are
// random. Those of p2 weigh evidence first: a conflict set are the positives with a probe at one
// bit. A positive that is alone in a set is true, since somebody set that bit. A set without such a
// positive holds at least one true one, and each of its s positives is it with about the same
// probability: 1 / s is evidence for each of them. Sets that a true positive explains say nothing.
#ifndef TFCOMPRESS_CORE_INDEX_BLOOM_POLICY_H_
#define TFCOMPRESS_CORE_INDEX_BLOOM_POLICY_H_

#include <cstdint>

#include "core/host_device.h"

namespace tfcompress {

// The numbers are part of the wire format.
enum class BloomPolicy : uint8_t { kNaive = 0, kP0, kP1, kP2, kLeftmost, kMiddle, kRightmost };

inline constexpr int kNumBloomPolicies = 7;
inline constexpr const char* kBloomPolicyNames[kNumBloomPolicies] = {
    "naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost"};

// Whether the choice depends on more than the number of positives before an index.
TFC_HOST_DEVICE inline bool ChoosesByPriority(BloomPolicy policy) {
  return policy == BloomPolicy::kP1 || policy == BloomPolicy::kP2;
}
// The rank of the first chosen positive, of those that choose successive ones.
TFC_HOST_DEVICE inline uint64_t RankOfFirst(BloomPolicy policy, uint64_t num_surplus) {
  if (policy == BloomPolicy::kMiddle) return num_surplus / 2;
  return policy == BloomPolicy::kRightmost ? num_surplus : 0;
}
// Whether the sent values are those at the decoded indices; with `naive` they are those at the
// original indices, in order.
inline bool GathersDecoded(BloomPolicy policy) { return policy != BloomPolicy::kNaive; }

// The size of a conflict set as far as it counts, in one byte; 0 if a true positive explains it.
inline constexpr uint32_t kMaxConflictSetSize = 255;
TFC_HOST_DEVICE inline uint32_t ConflictEvidence(uint32_t set_size) {
  return set_size == 0 ? 0 : 512 / set_size;
}
// More than kMaxBloomHashes sets of two give.
inline constexpr uint32_t kCertainEvidence = 0x3FFF;

// `hash` is HashKey(index, seed). Read as floats, priorities are finite and, but for a few random
// ones, far from 0.
TFC_HOST_DEVICE inline uint32_t RandomPriority(uint64_t hash) {
  return 1 + static_cast<uint32_t>(hash >> 34);
}
TFC_HOST_DEVICE inline uint32_t PriorityOf(uint32_t evidence, uint64_t hash) {
  return (16 + evidence) << 16 | static_cast<uint32_t>(hash >> 48);
}

// The policy and the number of hashes (a byte each), and the number of bits (four bytes).
inline constexpr uint64_t kBloomHeaderBytes = 6;

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_INDEX_BLOOM_POLICY_H_
