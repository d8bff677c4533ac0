#include "core/seeded_support.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/codec.h"

namespace tfcompress {
namespace {

TEST(SeededSupportTest, HasExactlyKDistinctAscendingIndices) {
  for (uint32_t n : {1u, 2u, 3u, 7u, 8u, 9u, 1000u, 65537u}) {
    for (uint32_t k : {0u, 1u, n / 2, n - 1, n}) {
      if (k > n) continue;
      const std::vector<uint32_t> indices = SeededSupport(n, k, n + k, SerialExecutor());
      ASSERT_EQ(indices.size(), k);
      EXPECT_TRUE(CheckIndices(indices, n).ok()) << n << " " << k;
    }
  }
}

TEST(SeededSupportTest, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  EXPECT_EQ(SeededSupport(1 << 20, 300000, 5, &threads),
            SeededSupport(1 << 20, 300000, 5, SerialExecutor()));
}

TEST(SeededSupportTest, WorkedExampleOfTheFormatPage) {
  EXPECT_EQ(SeededSupport(10, 3, 1, SerialExecutor()), (std::vector<uint32_t>{2, 5, 7}));
}

TEST(SeededSupportTest, EveryElementIsEquallyLikely) {
  // 2000 draws of 10 of 100: each element is drawn 200 times on average, with deviation
  // sqrt(200 * 0.9).
  std::vector<int> counts(100);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    for (uint32_t index : SeededSupport(100, 10, seed, SerialExecutor())) ++counts[index];
  }
  for (int count : counts) EXPECT_NEAR(count, 200, 4.5 * std::sqrt(180.0));
}

}  // namespace
}  // namespace tfcompress
