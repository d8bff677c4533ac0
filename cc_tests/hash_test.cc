#include "core/hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tfcompress {
namespace {

// Reference output of Vigna's splitmix64.c for the seed 1234567.
TEST(Random, IsSplitmix64) {
  Random random(1234567);
  for (uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                            4593380528125082431u, 16408922859458223821u}) {
    EXPECT_EQ(random.Next64(), expected);
  }
}

// Part of the wire format: these numbers never change.
TEST(HashKey, IsFrozen) {
  EXPECT_EQ(HashKey(0, 0), 0x48218226FF3CD4BFu);
  EXPECT_EQ(HashKey(1, 0), 0xA706DD2F4D197E6Fu);
  EXPECT_EQ(HashKey(0, 1), 0xDCE423FC82C0D5B8u);
  EXPECT_EQ(HashKey(0x7FFFFFFE, 42), 0xCC5FF5171AA13D1Eu);
}

TEST(HashKey, EveryInputBitReachesHalfOfTheOutputBits) {
  constexpr int kKeys = 2000;
  Random random(1);
  for (int bit = 0; bit < 128; ++bit) {
    int64_t num_changed = 0;
    for (int i = 0; i < kKeys; ++i) {
      const uint64_t key = random.Next64(), seed = random.Next64();
      const uint64_t other_key = bit < 64 ? key ^ uint64_t{1} << bit : key;
      const uint64_t other_seed = bit < 64 ? seed : seed ^ uint64_t{1} << (bit - 64);
      num_changed += __builtin_popcountll(HashKey(key, seed) ^ HashKey(other_key, other_seed));
    }
    // Binomial(64 * 2000, 1/2): 6 standard deviations are 0.54 of 32.
    EXPECT_NEAR(static_cast<double>(num_changed) / kKeys, 32, 0.54) << "input bit " << bit;
  }
}

TEST(FastRange32, CoversTheRangeAndNothingElse) {
  EXPECT_EQ(FastRange32(0, 10), 0u);
  EXPECT_EQ(FastRange32(0xFFFFFFFF, 10), 9u);
  EXPECT_EQ(FastRange32(0x80000000, 10), 5u);
  EXPECT_EQ(FastRange32(0xFFFFFFFF, 1), 0u);
  EXPECT_EQ(FastRange32(0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFEu);
}

TEST(Random, BelowIsUniform) {
  constexpr int kDraws = 70000;
  Random random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) ++counts[random.Below(7)];
  // 6 standard deviations of Binomial(70000, 1/7).
  for (int count : counts) EXPECT_NEAR(count, kDraws / 7, 556);
}

TEST(Random, FloatsLieInTheHalfOpenUnitInterval) {
  Random random(4);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const float value = random.NextFloat();
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    sum += value;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.006);
}

TEST(Random, SeedsGiveOtherSequences) {
  EXPECT_NE(Random(1).Next64(), Random(2).Next64());
  EXPECT_EQ(Random(1).Next64(), Random(1).Next64());
}

}  // namespace
}  // namespace tfcompress
