#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "core/hash.h"
#include "core/registry.h"
#include "core/sketch/bloom_filter.h"
#include "make_part.h"

namespace tfcompress {
namespace {

// k distinct indices below n, ascending.
std::vector<uint32_t> RandomSupport(uint32_t n, uint32_t k, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> support;
  for (uint32_t i = 0; i < n && support.size() < k; ++i) {
    if (random.Below(n - i) < k - support.size()) support.push_back(i);
  }
  return support;
}

size_t CountCommon(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return common.size();
}

struct Coded {
  Bytes section;
  std::vector<uint32_t> decoded;
  bool sends_encoded;
};

Coded EncodeBloom(const std::string& policy, const std::string& fpr,
                  const std::vector<uint32_t>& support, uint32_t n, const CodecContext& context) {
  Coded coded;
  const auto codec = MakePart<IndexCodec>("bloom", {{"policy", policy}, {"fpr", fpr}});
  const auto decoded = codec->Encode(support, n, context, &coded.section);
  EXPECT_TRUE(decoded.ok()) << decoded.status().message();
  coded.decoded = decoded.value().changed.value();
  coded.sends_encoded = decoded.value().sends_encoded();
  EXPECT_LE(coded.section.size(), codec->MaxEncodedBytes(n, static_cast<uint32_t>(support.size())));
  return coded;
}

Status DecodeBloom(const Bytes& section, uint32_t n, uint32_t k, const CodecContext& context,
                   std::vector<uint32_t>* indices) {
  return MakePart<IndexCodec>("bloom")->Decode(section, n, k, context, indices);
}

const char* const kPolicies[] = {"naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost"};

TEST(BloomShape, FollowsTheOptimum) {
  const BloomShape shape = BloomRate(0.001).ShapeFor(1000);
  EXPECT_EQ(shape.num_bits, 14378u);  // 1000 * 9.9658 / 0.6931
  EXPECT_EQ(shape.num_hashes, 10);
  EXPECT_EQ(BloomRate(0.001).ShapeFor(0).num_bits, kMinBloomBits);
  EXPECT_EQ(BloomRate(0.999).ShapeFor(1).num_hashes, 1);
  EXPECT_EQ(BloomRate(1e-9).ShapeFor(uint64_t{1} << 31).num_bits, 0xFFFFFFFFu);
}

TEST(BloomFilter, HasNoFalseNegatives) {
  const std::vector<uint32_t> keys = RandomSupport(50000, 700, 1);
  for (const double fpr : {0.5, 0.1, 0.01, 0.001, 1e-6}) {
    const BloomShape shape = BloomRate(fpr).ShapeFor(keys.size());
    Bytes bits(shape.num_bytes(), 0);
    BloomFilter::Insert(shape, 9, keys, bits.data());
    std::vector<uint32_t> contained;
    BloomFilter(shape, 9, bits.data()).AppendContained(0, 50000, &contained);
    EXPECT_TRUE(std::includes(contained.begin(), contained.end(), keys.begin(), keys.end())) << fpr;
  }
}

TEST(BloomFilter, AgreesWithItsDefinition) {
  const std::vector<uint32_t> keys = RandomSupport(5000, 300, 2);
  const Span<const uint32_t> few(keys.data(), 2);
  for (const uint32_t num_bits : {64u, 65u, 127u, 128u, 3001u}) {
    for (int num_hashes = 1; num_hashes <= kMaxBloomHashes; ++num_hashes) {
      const BloomShape shape{num_bits, num_hashes};
      Bytes bits(shape.num_bytes(), 0);
      BloomFilter::Insert(shape, 5, num_bits < 200 ? few : Span<const uint32_t>(keys), bits.data());
      std::vector<uint32_t> expected;
      for (uint32_t key = 17; key < 5000; ++key) {
        bool contained = true;
        for (uint64_t i = 0; i < static_cast<uint64_t>(num_hashes); ++i) {
          const uint64_t pair = Mix64(HashKey(key / 64, 5) + i / 2 * 2 * kGoldenGamma);
          const uint64_t half = i % 2 == 0 ? pair & 0xFFFFFFFF : pair >> 32;
          const uint64_t bit = ((half * num_bits >> 32) + key % 64) % num_bits;
          contained &= bits[bit / 8] >> (bit % 8) & 1;
        }
        if (contained) expected.push_back(key);
      }
      std::vector<uint32_t> contained;
      BloomFilter(shape, 5, bits.data()).AppendContained(17, 5000, &contained);
      EXPECT_EQ(contained, expected) << num_bits << ", " << num_hashes;
    }
  }
}

TEST(BloomFilter, TheBitsOfABlockInOneProbeDiffer) {
  for (const uint32_t num_bits : {64u, 65u, 3001u, 1u << 31, 0xFFFFFFFFu}) {
    for (const uint32_t start : {0u, 1u, num_bits - 64, num_bits - 63, num_bits - 1}) {
      std::vector<uint32_t> bits;
      for (uint32_t key = 640; key < 704; ++key) bits.push_back(BloomBit(start, key, num_bits));
      std::sort(bits.begin(), bits.end());
      EXPECT_TRUE(std::adjacent_find(bits.begin(), bits.end()) == bits.end()) << num_bits;
      EXPECT_LT(bits.back(), num_bits);
    }
  }
}

// The supports of gradients have structure: rows, columns and blocks of a matrix.
struct NamedSupport {
  const char* name;
  std::vector<uint32_t> keys;
};
std::vector<NamedSupport> SupportsOf3000(uint32_t n) {
  std::vector<NamedSupport> supports = {{"random", RandomSupport(n, 3000, 3)}};
  auto add = [&](const char* name, uint32_t run, uint32_t stride) {
    std::vector<uint32_t> keys;
    for (uint32_t begin = 5; keys.size() < 3000; begin += stride) {
      for (uint32_t i = 0; i < run && keys.size() < 3000; ++i) keys.push_back(begin + i);
    }
    supports.push_back({name, std::move(keys)});
  };
  add("a row", 3000, n);
  add("short rows", 30, 3000);
  add("a column of 64", 1, 64);
  add("a column of 100", 1, 100);
  return supports;
}

// Means over seeds: false positives come in runs where the true keys do. The rate is that of the
// rounded number of hashes, (1 - e^(-hk/m))^h.
TEST(BloomFilter, FalsePositiveRateIsTheOneAskedFor) {
  constexpr uint32_t kN = 300000;
  constexpr int kSeeds = 20;
  for (const NamedSupport& support : SupportsOf3000(kN)) {
    const auto k = static_cast<uint32_t>(support.keys.size());
    for (const double fpr : {0.3, 0.1, 0.01, 0.001}) {
      const BloomShape shape = BloomRate(fpr).ShapeFor(k);
      const double rate =
          std::pow(1 - std::exp(-1.0 * shape.num_hashes * k / shape.num_bits), shape.num_hashes);
      EXPECT_NEAR(rate, fpr, 0.1 * fpr);
      size_t num_false = 0;
      for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        Bytes bits(shape.num_bytes(), 0);
        BloomFilter::Insert(shape, seed, support.keys, bits.data());
        std::vector<uint32_t> contained;
        BloomFilter(shape, seed, bits.data()).AppendContained(0, kN, &contained);
        num_false += contained.size() - k;
      }
      const double mean = rate * (kN - k);
      EXPECT_NEAR(static_cast<double>(num_false) / kSeeds, mean, 0.05 * mean + 5 * std::sqrt(mean))
          << support.name << ", " << fpr;
    }
  }
}

TEST(BloomIndex, EncoderKnowsWhatTheReceiverDecodes) {
  constexpr uint32_t kN = 20000;
  ThreadExecutor threads(4);
  const std::vector<uint32_t> support = RandomSupport(kN, 400, 4);
  for (const char* policy : kPolicies) {
    for (const char* fpr : {"0.5", "0.02", "0.001"}) {
      const Coded coded = EncodeBloom(policy, fpr, support, kN, {21, SerialExecutor()});
      const Coded threaded = EncodeBloom(policy, fpr, support, kN, {21, &threads});
      EXPECT_EQ(threaded.section, coded.section);
      EXPECT_EQ(threaded.decoded, coded.decoded);
      EXPECT_TRUE(CheckIndices(coded.decoded, kN).ok());
      std::vector<uint32_t> decoded;
      const auto k = static_cast<uint32_t>(coded.decoded.size());
      const Status status = DecodeBloom(coded.section, kN, k, {21, &threads}, &decoded);
      EXPECT_TRUE(status.ok()) << policy << ": " << status.message();
      EXPECT_EQ(decoded, coded.decoded) << policy;
    }
  }
}

TEST(BloomIndex, HandlesTheExtremesOfK) {
  for (const char* policy : kPolicies) {
    for (const uint32_t n : {1u, 9u, 1000u}) {
      for (const uint32_t k : {0u, 1u, n}) {
        const Coded coded =
            EncodeBloom(policy, "0.001", RandomSupport(n, k, 5), n, {1, SerialExecutor()});
        if (std::string(policy) != "p0") {
          EXPECT_EQ(coded.decoded.size(), k);
        }
        std::vector<uint32_t> decoded;
        const auto decoded_k = static_cast<uint32_t>(coded.decoded.size());
        EXPECT_TRUE(DecodeBloom(coded.section, n, decoded_k, {1, SerialExecutor()}, &decoded).ok());
        EXPECT_EQ(decoded, coded.decoded);
      }
    }
  }
}

// DeepReduce 4: P holds the true and the false positives; 10.4: leftmost, middle and rightmost are
// slices of it, and the naive receiver takes the first k.
TEST(BloomIndex, PoliciesSelectFromTheSamePositives) {
  constexpr uint32_t kN = 30000;
  constexpr uint32_t kK = 500;
  const CodecContext context{6, SerialExecutor()};
  const std::vector<uint32_t> support = RandomSupport(kN, kK, 6);
  auto decode = [&](const char* policy) {
    return EncodeBloom(policy, "0.01", support, kN, context).decoded;
  };

  const std::vector<uint32_t> positives = decode("p0");
  ASSERT_GT(positives.size(), kK);
  EXPECT_TRUE(std::includes(positives.begin(), positives.end(), support.begin(), support.end()));
  const size_t num_surplus = positives.size() - kK;
  auto slice = [&](size_t first) {
    const auto begin = positives.begin() + static_cast<std::ptrdiff_t>(first);
    return std::vector<uint32_t>(begin, begin + kK);
  };
  EXPECT_EQ(decode("naive"), slice(0));
  EXPECT_EQ(decode("leftmost"), slice(0));
  EXPECT_EQ(decode("middle"), slice(num_surplus / 2));
  EXPECT_EQ(decode("rightmost"), slice(num_surplus));
  for (const char* policy : {"p1", "p2"}) {
    const std::vector<uint32_t> chosen = decode(policy);
    EXPECT_EQ(chosen.size(), kK);
    EXPECT_TRUE(std::includes(positives.begin(), positives.end(), chosen.begin(), chosen.end()))
        << policy;
  }
}

TEST(BloomIndex, OnlyNaiveKeepsTheOriginalValues) {
  for (const char* policy : kPolicies) {
    const Coded coded = EncodeBloom(policy, "0.1", {3, 17, 42}, 64, {});
    EXPECT_EQ(coded.sends_encoded, std::string(policy) == "naive");
  }
}

// Shares of the indices that are true, over ten seeds.
double ShareOfTrue(const char* policy, const char* fpr) {
  constexpr uint32_t kN = 20000;
  constexpr uint32_t kK = 300;
  size_t num_true = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<uint32_t> support = RandomSupport(kN, kK, 100 + seed);
    const Coded coded = EncodeBloom(policy, fpr, support, kN, {seed, SerialExecutor()});
    num_true += CountCommon(support, coded.decoded);
  }
  return static_cast<double>(num_true) / (10 * kK);
}

// DeepReduce 4, policy P2: "the probability is smaller, compared to policy P1". Algorithm 1, which
// draws from the sets in the order of their sizes, kept 0.38, 0.74 and 0.997 of a support of this
// density.
TEST(BloomIndex, ConflictSetsKeepMoreTruePositivesThanChance) {
  EXPECT_GT(ShareOfTrue("p2", "0.03"), 1.7 * ShareOfTrue("p1", "0.03"));
  EXPECT_GT(ShareOfTrue("p2", "0.03"), 0.43);
  EXPECT_GT(ShareOfTrue("p2", "0.01"), 0.83);
  EXPECT_GT(ShareOfTrue("p2", "0.001"), 0.998);
}

// An item alone in a conflict set is certainly true (Algorithm 1, line 8), and always chosen.
TEST(BloomIndex, ConflictSetsChooseEverySingleton) {
  constexpr uint32_t kN = 20000;
  const CodecContext context{8, SerialExecutor()};
  const std::vector<uint32_t> support = RandomSupport(kN, 300, 8);
  const std::vector<uint32_t> positives = EncodeBloom("p0", "0.01", support, kN, context).decoded;
  const std::vector<uint32_t> chosen = EncodeBloom("p2", "0.01", support, kN, context).decoded;
  const BloomShape shape = BloomRate(0.01).ShapeFor(support.size());

  const Bytes bits(shape.num_bytes(), 0);
  const BloomFilter filter(shape, context.seed, bits.data());

  std::vector<std::vector<uint32_t>> sets(shape.num_bits);
  for (const uint32_t key : positives) {
    filter.VisitBits(key, [&](uint32_t bit) {
      sets[bit].push_back(key);
      return true;
    });
  }
  size_t num_singletons = 0;
  for (const std::vector<uint32_t>& set : sets) {
    if (set.size() != 1) continue;
    ++num_singletons;
    EXPECT_TRUE(std::binary_search(support.begin(), support.end(), set[0]));
    EXPECT_TRUE(std::binary_search(chosen.begin(), chosen.end(), set[0]));
  }
  EXPECT_GT(num_singletons, 300u);
}

Bytes Section(uint8_t policy, uint8_t num_hashes, uint8_t num_bits, const Bytes& bits) {
  Bytes section = {policy, num_hashes, num_bits, 0, 0, 0};
  section.insert(section.end(), bits.begin(), bits.end());
  return section;
}

TEST(BloomIndex, ResolvesOneGreatConflict) {
  constexpr uint32_t kN = 200000;
  std::vector<uint32_t> indices;
  for (const uint8_t policy : {2, 3}) {  // p1 and p2, where all positives share all sets.
    const Bytes section = Section(policy, 1, 64, Bytes(8, 0xFF));
    const Status status = DecodeBloom(section, kN, kN / 2, {1, SerialExecutor()}, &indices);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(indices.size(), kN / 2);
    EXPECT_TRUE(CheckIndices(indices, kN).ok());
  }
}

TEST(BloomIndex, RandomPoliciesDependOnTheSeed) {
  const std::vector<uint32_t> support = RandomSupport(20000, 300, 9);
  const auto first = EncodeBloom("p1", "0.1", support, 20000, {1, SerialExecutor()});
  const auto second = EncodeBloom("p1", "0.1", support, 20000, {2, SerialExecutor()});
  EXPECT_NE(first.section, second.section);
  EXPECT_NE(first.decoded, second.decoded);
}

void ExpectBadFilter(const Bytes& section, uint32_t n, uint32_t k) {
  std::vector<uint32_t> indices;
  EXPECT_EQ(DecodeBloom(section, n, k, {1, SerialExecutor()}, &indices).code(),
            StatusCode::kDataLoss);
}

TEST(BloomIndex, RejectsHostileSections) {
  const Bytes one = {0x01, 0, 0, 0, 0, 0, 0, 0};
  ExpectBadFilter(Section(7, 1, 64, one), 100, 1);              // Unknown policy.
  ExpectBadFilter(Section(3, 0, 64, one), 100, 1);              // No hashes.
  ExpectBadFilter(Section(3, 33, 64, one), 100, 1);             // Too many.
  ExpectBadFilter(Section(3, 1, 0, {}), 100, 0);                // No bits.
  ExpectBadFilter(Section(3, 1, 63, one), 100, 1);              // Fewer than any encoder has.
  ExpectBadFilter(Section(3, 1, 65, one), 100, 33);             // Fewer bytes than bits need.
  ExpectBadFilter(Section(3, 1, 64, Bytes(9, 0)), 100, 1);      // More.
  ExpectBadFilter({3, 1, 0xFF, 0xFF, 0xFF, 0xFF, 1}, 100, 1);   // Far fewer.
  ExpectBadFilter(Section(3, 1, 65, Bytes(9, 0x80)), 100, 33);  // A bit after the last.
  ExpectBadFilter(Section(3, 2, 64, Bytes(8, 0xFF)), 100, 31);  // More bits than 31 * 2 probes.
  for (uint8_t policy = 0; policy < 7; ++policy) {
    ExpectBadFilter(Section(policy, 1, 64, Bytes(8, 0)), 100, 1);  // No positives at all.
  }
  ExpectBadFilter(Section(1, 1, 64, Bytes(8, 0xFF)), 100, 99);  // p0, with 100 positives.
}

}  // namespace
}  // namespace tfcompress
