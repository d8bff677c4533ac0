// The Bloom filter of DeepReduce section 4. The receiver tests every element of [0, n); from the
// positives P, true and false, a policy chooses the indices:
//   naive       the first k; the values stay those of the original indices, in order
//   p0          all of P; k grows to |P|
//   p1          k of P at random
//   p2          k of P by conflict sets (Algorithm 1; bloom_policy.h)
//   leftmost, middle, rightmost   the first, middle or last k of P (10.4)
//
// Decoding takes O(n / 64) time, and O(|P|) memory (p2: a byte for each bit of the filter besides).
// Naive and leftmost stop at the k-th positive, and p0 at the one too many.

#include <algorithm>
#include <functional>
#include <iterator>

#include "core/byte_io.h"
#include "core/concatenate.h"
#include "core/count_bits.h"
#include "core/hash.h"
#include "core/index/bloom_policy.h"
#include "core/registry.h"
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

// Positives in ascending order of the index, with a priority each.
class Priorities {
 public:
  Priorities(const BloomFilter& filter, uint64_t seed, Span<const uint32_t> positives)
      : filter_(filter), hash_of_(seed), positives_(positives), bits_(positives.size()) {}

  void Randomise() {
    for (size_t rank = 0; rank < positives_.size(); ++rank)
      bits_[rank] = RandomPriority(hash_of_(positives_[rank]));
  }

  void Weigh() {
    std::vector<uint8_t> set_sizes(filter_.shape().num_bits);
    CountMembers(&set_sizes);
    FindCertain(set_sizes);
    Explain(&set_sizes);
    WeighOthers(set_sizes);
  }

  // The k > 0 positives of largest priority, ascending.
  std::vector<uint32_t> Largest(size_t k) const {
    // Of equal ones the lower rank comes first.
    const auto order_of = [&](size_t rank) {
      return uint64_t{bits_[rank]} << 32 | ~static_cast<uint32_t>(rank);
    };
    std::vector<uint64_t> orders(positives_.size());
    for (size_t rank = 0; rank < orders.size(); ++rank) orders[rank] = order_of(rank);
    const auto last = orders.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(orders.begin(), last, orders.end(), std::greater<>());
    const uint64_t least = *last;
    std::vector<uint32_t> chosen;
    chosen.reserve(k);
    for (size_t rank = 0; rank < positives_.size(); ++rank) {
      if (order_of(rank) >= least) chosen.push_back(positives_[rank]);
    }
    return chosen;
  }

 private:
  static constexpr uint32_t kUnweighed = 0;

  void CountMembers(std::vector<uint8_t>* set_sizes) const {
    uint8_t* sizes = set_sizes->data();
    for (const uint32_t key : positives_) {
      filter_.VisitBits(key, [sizes](uint32_t bit) {
        sizes[bit] = static_cast<uint8_t>(sizes[bit] + (sizes[bit] < kMaxConflictSetSize));
        return true;
      });
    }
  }

  void FindCertain(const std::vector<uint8_t>& set_sizes) {
    for (size_t rank = 0; rank < positives_.size(); ++rank) {
      bool is_certain = false;
      filter_.VisitBits(positives_[rank], [&](uint32_t bit) {
        is_certain = set_sizes[bit] == 1;
        return !is_certain;
      });
      bits_[rank] =
          is_certain ? PriorityOf(kCertainEvidence, hash_of_(positives_[rank])) : kUnweighed;
    }
  }

  // Gives the sets of certain positives size 0.
  void Explain(std::vector<uint8_t>* set_sizes) const {
    for (size_t rank = 0; rank < positives_.size(); ++rank) {
      if (bits_[rank] == kUnweighed) continue;
      filter_.VisitBits(positives_[rank], [set_sizes](uint32_t bit) {
        (*set_sizes)[bit] = 0;
        return true;
      });
    }
  }

  void WeighOthers(const std::vector<uint8_t>& set_sizes) {
    for (size_t rank = 0; rank < positives_.size(); ++rank) {
      if (bits_[rank] != kUnweighed) continue;
      uint32_t evidence = 0;
      filter_.VisitBits(positives_[rank], [&](uint32_t bit) {
        evidence += ConflictEvidence(set_sizes[bit]);
        return true;
      });
      bits_[rank] = PriorityOf(evidence, hash_of_(positives_[rank]));
    }
  }

  const BloomFilter& filter_;
  const SeededHash hash_of_;
  const Span<const uint32_t> positives_;
  std::vector<uint32_t> bits_;
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
  const size_t num_surplus = positives.size() - k;
  if (num_surplus == 0) {
    *indices = std::move(positives);
  } else if (ChoosesByPriority(policy)) {
    Priorities priorities(filter, context.seed, positives);
    policy == BloomPolicy::kP1 ? priorities.Randomise() : priorities.Weigh();
    *indices = priorities.Largest(k);
  } else {
    const uint32_t* first = positives.data() + RankOfFirst(policy, num_surplus);
    indices->assign(first, first + k);
  }
  return OkStatus();
}

class BloomIndexCodec : public IndexCodec {
 public:
  explicit BloomIndexCodec(const Params& params)
      : policy_(static_cast<BloomPolicy>(params.Choice("policy"))), rate_(params.Float("fpr")) {}

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
    if (shape.num_bits < kMinBloomBits) {
      return DataLoss("bloom: expected at least ", kMinBloomBits, " bits, found ", shape.num_bits);
    }
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

  uint64_t MinEncodedBytes(uint32_t, uint32_t) const override {
    return kBloomHeaderBytes + kMinBloomBits / 8;
  }
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

}  // namespace

Definition<IndexCodec> BloomIndex() {
  constexpr double kMinRate = 1e-9;  // 30 hashes; a section holds at most 32.
  return {
      "Bloom filter with a policy against false positives (DeepReduce 4, 10.4).",
      {ChoiceParam("policy", "p2", "how indices are chosen among the filter's positives",
                   {std::begin(kBloomPolicyNames), std::end(kBloomPolicyNames)}),
       {"fpr", ParamKind::kFloat, "0.001", "false positive rate of the filter", kMinRate, 0.999}},
      Make<BloomIndexCodec>,
      "p0: superset; others: k indices, some of them false",
      "6 + max(8, 1.44 k log2(1 / fpr) / 8)"};
}

}  // namespace tfcompress
