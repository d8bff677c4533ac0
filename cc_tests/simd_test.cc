#include "core/simd.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace tfcompress {
namespace {

// What ctest asks for is what is tested, unless the processor does not have it.
TEST(Simd, IsNotAboveTheOneThatTheEnvironmentNames) {
  const char* name = std::getenv("TFC_SIMD");
  if (name == nullptr) GTEST_SKIP() << "TFC_SIMD is not set";
  for (Simd simd : {Simd::kBaseline, Simd::kArmCrc, Simd::kSse4, Simd::kAvx2, Simd::kAvx512}) {
    if (std::strcmp(name, SimdName(simd)) == 0) {
      EXPECT_LE(CurrentSimd(), simd);
    }
  }
}

TEST(Vectorized, CallsTheBodyOnce) {
  std::vector<int> counts(1000);
  Vectorized([counts = counts.data()] {
    for (int i = 0; i < 1000; ++i) ++counts[i];
  });
  EXPECT_EQ(counts, std::vector<int>(1000, 1));
}

}  // namespace
}  // namespace tfcompress
