// The Bloom filter of DeepReduce section 4. The receiver tests every element of [0, n); from the
// positives P, true and false, a policy chooses the indices:
//   naive       the first k; the values stay those of the original indices, in order
//   p0          all of P; k grows to |P|
//   p1          k of P at random
//   p2          k of P by conflict sets (Algorithm 1)
//   leftmost, middle, rightmost   the first, middle or last k of P (10.4)
//
// Decoding takes O(n) time by the nature of the filter, and O(|P|) memory (p2: a byte for each bit
// of the filter besides). Naive and leftmost stop at the k-th positive, and p0 at the one too many.

#include <algorithm>
#include <iterator>
#include <tuple>

#include "core/byte_io.h"
#include "core/concatenate.h"
#include "core/count_bits.h"
#include "core/hash.h"
#include "core/index/bloom_policy.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/sketch/bloom_filter.h"

namespace tfcompress {
namespace {

// Ascending positives of [0, n): all of them, or at least the first `limit`.
std::vector<uint32_t> CollectPositives(const BloomFilter& filter, uint32_t n, uint64_t limit,
                                       Executor* executor) {
  constexpr int64_t kRoundElements =
      64 * kBlockElements;  // Enough for every core between two looks at the limit.
  std::vector<uint32_t> positives;
  for (int64_t begin = 0; begin < n && positives.size() < limit; begin += kRoundElements) {
    const int64_t num_elements = std::min<int64_t>(kRoundElements, n - begin);
    std::vector<std::vector<uint32_t>> parts(static_cast<size_t>(NumBlocks(num_elements)));
    ForEachBlock(executor, num_elements, [&](int64_t block, int64_t first, int64_t last) {
      filter.AppendContained(static_cast<uint32_t>(begin + first),
                             static_cast<uint32_t>(begin + last), &parts[block]);
    });
    Concatenate(parts, &positives);
  }
  return positives;
}

// Policy p1: k of `positives`, all subsets alike, by selection sampling in one pass.
std::vector<uint32_t> SampleOf(const std::vector<uint32_t>& positives, uint32_t k, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> chosen;
  chosen.reserve(k);
  for (size_t i = 0; i < positives.size() && chosen.size() < k; ++i) {
    const auto num_left = static_cast<uint32_t>(positives.size() - i);
    if (random.Below(num_left) < k - chosen.size()) chosen.push_back(positives[i]);
  }
  return chosen;
}

// The size of each conflict set, as far as 255: in one byte each, the sizes of a usual filter stay
// in a cache, and larger sets are the last resort whatever their order.
using SetSizes = std::vector<uint8_t>;

SetSizes ConflictSetSizes(const BloomFilter& filter, const std::vector<uint32_t>& positives) {
  SetSizes sizes(filter.shape().num_bits);
  Vectorized([filter, keys = Span<const uint32_t>(positives), out = sizes.data()] {
    uint32_t bits[kMaxBloomHashes];
    for (const uint32_t key : keys) {
      const int count = filter.DistinctPositions(key, bits);
      for (int i = 0; i < count; ++i)
        out[bits[i]] = static_cast<uint8_t>(out[bits[i]] + (out[bits[i]] < 255));
    }
  });
  return sizes;
}

// One item of one conflict set, ordered as Algorithm 1 visits them (line 5): by the size of the
// set, then by its bit.
struct Member {
  uint32_t set_size;
  uint32_t bit;
  uint32_t rank;  // Of the item among the positives.

  bool SameSet(const Member& other) const { return bit == other.bit; }
  bool operator<(const Member& other) const {
    return std::tie(set_size, bit, rank) < std::tie(other.set_size, other.bit, other.rank);
  }
};

// Members in ascending order, set by set, of which no more are sorted than are asked for: the last
// few indices come from the first sets.
class MembersBySet {
 public:
  explicit MembersBySet(std::vector<Member> members) : members_(std::move(members)) {}

  // The members of the next set; none after the last.
  Span<Member> Next() {
    const size_t begin = end_;
    while (HasSorted(end_) && members_[end_].SameSet(members_[begin])) ++end_;
    return {members_.data() + begin, end_ - begin};
  }

 private:
  // Whether there is a member i, which is then in its place. Those before it are.
  bool HasSorted(size_t i) {
    constexpr size_t kFirstMembers = 4096;
    if (i == num_sorted_ && i < members_.size()) {
      const auto begin = members_.begin() + static_cast<std::ptrdiff_t>(num_sorted_);
      num_sorted_ = std::min(members_.size(), std::max(kFirstMembers, 4 * num_sorted_));
      const auto end = members_.begin() + static_cast<std::ptrdiff_t>(num_sorted_);
      std::nth_element(begin, end, members_.end());
      std::sort(begin, end);
    }
    return i < num_sorted_;
  }

  std::vector<Member> members_;
  size_t num_sorted_ = 0;
  size_t end_ = 0;  // Of the last set that was handed out.
};

// Policy p2: k of `positives` by Algorithm 1.
class ConflictResolver {
 public:
  ConflictResolver(const BloomFilter& filter, const std::vector<uint32_t>& positives, uint32_t k,
                   uint64_t seed)
      : filter_(filter),
        positives_(positives),
        k_(k),
        random_(seed),
        is_chosen_(positives.size()) {}

  std::vector<uint32_t> Resolve() {
    const SetSizes sizes = ConflictSetSizes(filter_, positives_);
    ChooseSingletons(sizes);
    ChooseFromConflicts(sizes);
    std::vector<uint32_t> chosen;
    chosen.reserve(k_);
    for (size_t rank = 0; rank < positives_.size(); ++rank) {
      if (is_chosen_[rank]) chosen.push_back(positives_[rank]);
    }
    return chosen;
  }

 private:
  // Line 8. An item that is alone in a set has set that bit: it is a true positive. Nearly all true
  // positives are alone somewhere, so that few items are left for what follows.
  void ChooseSingletons(const SetSizes& sizes) {
    for (size_t rank = 0; rank < positives_.size() && num_chosen_ < k_; ++rank) {
      if (filter_.AnyPosition(positives_[rank], [&](uint32_t bit) { return sizes[bit] == 1; }))
        Choose(rank);
    }
  }

  // Lines 6 to 11. Items that are chosen leave their sets only when they are drawn: what is drawn
  // in the end is random among the others all the same, and no set is ever scanned.
  void ChooseFromConflicts(const SetSizes& sizes) {
    if (num_chosen_ == k_) return;
    MembersBySet members(UnchosenMembers(sizes));
    std::vector<Span<Member>> sets;  // What the rounds so far left of them.
    while (num_chosen_ < k_) {
      const Span<Member> set = members.Next();
      if (set.empty()) break;
      const Span<Member> rest = DrawFrom(set);
      if (!rest.empty()) sets.push_back(rest);
    }
    while (num_chosen_ <
           k_) {  // A round without a choice would leave no set, and all |P| >= k chosen.
      size_t num_left = 0;
      for (size_t i = 0; i < sets.size() && num_chosen_ < k_; ++i) {
        const Span<Member> rest = DrawFrom(sets[i]);
        if (!rest.empty()) sets[num_left++] = rest;
      }
      sets.resize(num_left);
    }
  }

  std::vector<Member> UnchosenMembers(const SetSizes& sizes) const {
    std::vector<Member> members;
    members.reserve((positives_.size() - num_chosen_) *
                    static_cast<size_t>(filter_.shape().num_hashes));
    uint32_t bits[kMaxBloomHashes];
    for (size_t rank = 0; rank < positives_.size(); ++rank) {
      if (is_chosen_[rank]) continue;
      const int count = filter_.DistinctPositions(positives_[rank], bits);
      for (int i = 0; i < count; ++i)
        members.push_back({sizes[bits[i]], bits[i], static_cast<uint32_t>(rank)});
    }
    return members;
  }

  // Chooses a random item of `set` that is not chosen yet, if there is one; returns what is left.
  Span<Member> DrawFrom(Span<Member> set) {
    while (!set.empty()) {
      Member& drawn = set[random_.Below(static_cast<uint32_t>(set.size()))];
      const uint32_t rank = drawn.rank;
      drawn = set[set.size() - 1];
      set = set.subspan(0, set.size() - 1);
      if (is_chosen_[rank]) continue;
      Choose(rank);
      break;
    }
    return set;
  }

  void Choose(size_t rank) {
    is_chosen_[rank] = true;
    ++num_chosen_;
  }

  const BloomFilter& filter_;
  const std::vector<uint32_t>& positives_;
  const uint32_t k_;
  Random random_;
  std::vector<bool> is_chosen_;
  uint32_t num_chosen_ = 0;
};

// What a receiver makes of the filter: the same code runs at both ends. Fails with DataLoss when
// the filter has not the positives that the policy needs for k indices.
Status ChooseIndices(BloomPolicy policy, const BloomFilter& filter, uint32_t n, uint32_t k,
                     const CodecContext& context, std::vector<uint32_t>* indices) {
  const bool takes_first = policy == BloomPolicy::kNaive || policy == BloomPolicy::kLeftmost;
  const uint64_t limit = takes_first                  ? k
                         : policy == BloomPolicy::kP0 ? uint64_t{k} + 1
                                                      : uint64_t{n} + 1;
  std::vector<uint32_t> positives = CollectPositives(filter, n, limit, context.executor);
  if (positives.size() < k || (policy == BloomPolicy::kP0 && positives.size() > k)) {
    return DataLoss("bloom: expected ", policy == BloomPolicy::kP0 ? "" : "at least ", k,
                    " positives, found ", positives.size());
  }
  auto slice = [&](size_t first) {
    return std::vector<uint32_t>(positives.begin() + static_cast<std::ptrdiff_t>(first),
                                 positives.begin() + static_cast<std::ptrdiff_t>(first + k));
  };
  const size_t num_surplus = positives.size() - k;
  switch (policy) {
    case BloomPolicy::kP0:
      *indices = std::move(positives);
      break;
    case BloomPolicy::kNaive:
    case BloomPolicy::kLeftmost:
      *indices = slice(0);
      break;
    case BloomPolicy::kMiddle:
      *indices = slice(num_surplus / 2);
      break;
    case BloomPolicy::kRightmost:
      *indices = slice(num_surplus);
      break;
    case BloomPolicy::kP1:
      *indices = SampleOf(positives, k, context.seed);
      break;
    case BloomPolicy::kP2:
      *indices = ConflictResolver(filter, positives, k, context.seed).Resolve();
      break;
  }
  return OkStatus();
}

class BloomIndexCodec : public IndexCodec {
 public:
  BloomIndexCodec(BloomPolicy policy, double fpr) : policy_(policy), rate_(fpr) {}

  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t n,
                                const CodecContext& context, Bytes* out) const override {
    const BloomShape shape = rate_.ShapeFor(indices.size());
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(policy_));
    writer.Write(static_cast<uint8_t>(shape.num_hashes));
    writer.Write(shape.num_bits);
    unsigned char* bits = writer.ExtendByZeros(static_cast<size_t>(shape.num_bytes()));
    BloomFilter::Insert(shape, context.seed, indices, bits);

    const BloomFilter filter(shape, context.seed, bits);
    if (policy_ == BloomPolicy::kP0) {
      return DecodedIndices{CollectPositives(filter, n, uint64_t{n} + 1, context.executor)};
    }
    std::vector<uint32_t> decoded;
    TFC_RETURN_IF_ERROR(ChooseIndices(policy_, filter, n, static_cast<uint32_t>(indices.size()),
                                      context, &decoded));
    return DecodedIndices{std::move(decoded), !GathersDecoded(policy_)};
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    ByteReader reader(section);
    uint8_t policy = 0;
    uint8_t num_hashes = 0;
    BloomShape shape{};
    ByteSpan bits;
    TFC_RETURN_IF_ERROR(reader.Read("bloom policy", &policy));
    TFC_RETURN_IF_ERROR(reader.Read("bloom number of hashes", &num_hashes));
    TFC_RETURN_IF_ERROR(reader.Read("bloom number of bits", &shape.num_bits));
    TFC_RETURN_IF_ERROR(reader.ReadSpan("bloom bits", shape.num_bytes(), &bits));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("bloom"));
    if (policy >= kNumBloomPolicies) return DataLoss("bloom: unknown policy ", int{policy});
    if (num_hashes < 1 || num_hashes > kMaxBloomHashes) {
      return DataLoss("bloom: expected 1 to ", kMaxBloomHashes, " hashes, found ", int{num_hashes});
    }
    if (shape.num_bits == 0) return DataLoss("bloom: the filter has no bits");
    shape.num_hashes = num_hashes;
    // The encoder had k keys, but for p0, whose k counts the positives.
    if (!shape.IsFor(k, static_cast<BloomPolicy>(policy) == BloomPolicy::kP0)) {
      return DataLoss("bloom: no encoder makes a filter of ", shape.num_bits, " bits and ",
                      shape.num_hashes, " hashes for ", k, " indices");
    }
    TFC_RETURN_IF_ERROR(CheckBits(bits, shape, k));
    const BloomFilter filter(shape, context.seed, bits.data());
    return ChooseIndices(static_cast<BloomPolicy>(policy), filter, n, k, context, indices);
  }

  // A filter of one bit.
  uint64_t MinEncodedBytes(uint32_t, uint32_t) const override { return kBloomHeaderBytes + 1; }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override {
    return kBloomHeaderBytes + rate_.ShapeFor(k).num_bytes();
  }

 private:
  // Each of at most k keys sets at most num_hashes bits: a filter that is fuller, and would answer
  // yes to almost everything, is told before the universe is queried.
  static Status CheckBits(ByteSpan bits, BloomShape shape, uint32_t k) {
    if (shape.num_bits % 8 != 0 && bits[bits.size() - 1] >> (shape.num_bits % 8) != 0) {
      return DataLoss("bloom: bits are set after the last of ", shape.num_bits);
    }
    const uint64_t num_set = CountBits(bits);
    if (num_set <= uint64_t{k} * static_cast<uint64_t>(shape.num_hashes)) return OkStatus();
    return DataLoss("bloom: ", num_set, " bits are set, more than ", k, " keys with ",
                    shape.num_hashes, " hashes can set");
  }

  BloomPolicy policy_;
  BloomRate rate_;
};

std::unique_ptr<const IndexCodec> Make(const Params& params) {
  return std::make_unique<BloomIndexCodec>(static_cast<BloomPolicy>(params.Choice("policy")),
                                           params.Float("fpr"));
}

}  // namespace

Definition<IndexCodec> BloomIndex() {
  ParamSpec policy{"policy", ParamKind::kChoice, "p2",
                   "how indices are chosen among the filter's positives"};
  policy.choices.assign(std::begin(kBloomPolicyNames), std::end(kBloomPolicyNames));
  ParamSpec fpr{"fpr", ParamKind::kFloat, "0.001", "false positive rate of the filter"};
  fpr.min = 1e-9;  // 30 hashes; a section holds at most 32.
  fpr.max = 0.999;
  return {"Bloom filter with a policy against false positives (DeepReduce 4, 10.4).",
          {policy, fpr},
          Make,
          "p0: superset; others: k indices, some of them false",
          "6 + 1.44 k log2(1 / fpr) / 8"};
}

}  // namespace tfcompress
