// TensorFlow flushes subnormal numbers on its own threads and not on the caller's: value decoders
// must make the same numbers of the same bytes in both modes, or replicas drift apart.
#include <gtest/gtest.h>

#include <cstring>

#include "contract_inputs.h"
#include "round_trip.h"

#ifdef __SSE2__
#include <immintrin.h>

namespace tfcompress {
namespace {

class FlushedSubnormals {
 public:
  FlushedSubnormals() : mode_(_mm_getcsr()) { _mm_setcsr(mode_ | kFlushResults | kFlushInputs); }
  ~FlushedSubnormals() { _mm_setcsr(mode_); }

 private:
  static constexpr unsigned kFlushResults = 0x8000;
  static constexpr unsigned kFlushInputs = 0x0040;
  unsigned mode_;
};

class SubnormalTest : public testing::TestWithParam<Setting<ValueCodec>> {};

TEST_P(SubnormalTest, DecodesTheSameInBothModes) {
  const ValueCodec& codec = *GetParam().codec;
  for (const ValueCase& input : ValueCases()) {
    SCOPED_TRACE(input.name);
    const size_t k = input.values.size();
    const Bytes section = MustEncode(codec, input.values);
    const std::vector<float> decoded = MustDecode(codec, section, k);
    std::vector<float> flushed;
    {
      FlushedSubnormals mode;
      flushed = MustDecode(codec, section, k);
    }
    EXPECT_TRUE(k == 0 || std::memcmp(flushed.data(), decoded.data(), k * sizeof(float)) == 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, SubnormalTest, testing::ValuesIn(AllSettings<ValueCodec>()),
                         [](const auto& info) { return TestName(info.param.part); });

}  // namespace
}  // namespace tfcompress

#endif  // __SSE2__
