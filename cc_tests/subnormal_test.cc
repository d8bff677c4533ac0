// TensorFlow flushes subnormal numbers on its own threads and not on the caller's: value decoders
// and linear codecs must make the same numbers of the same input in both modes, or replicas drift
// apart.
#include <gtest/gtest.h>

#include <cstring>

#include "contract_inputs.h"
#include "core/linear_compressor.h"
#include "core/spec.h"
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

class ValueSubnormalTest : public testing::TestWithParam<Setting<ValueCodec>> {};

TEST_P(ValueSubnormalTest, DecodesTheSameInBothModes) {
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

// GPUs keep subnormal numbers: what encoders compute should be the same there.
TEST_P(ValueSubnormalTest, EncodesTheSameInBothModes) {
  const std::string name = NameOf(GetParam().part);
  if (name == "quantile" || name == "minmax")
    GTEST_SKIP() << "the means of buckets of subnormal numbers are 0 where those are flushed";
  const ValueCodec& codec = *GetParam().codec;
  std::vector<ValueCase> inputs = ValueCases();
  inputs.push_back({"a small coefficient", {1, 1, 1.5e-38f, 0}});
  for (const ValueCase& input : inputs) {
    SCOPED_TRACE(input.name);
    const Bytes section = MustEncode(codec, input.values);
    FlushedSubnormals mode;
    EXPECT_TRUE(MustEncode(codec, input.values) == section);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ValueSubnormalTest, testing::ValuesIn(AllSettings<ValueCodec>()),
                         [](const auto& info) { return TestName(info.param.part); });

// Gradients of every size of float, many of them subnormal, and sums that cancel to subnormal ones.
std::vector<float> TinyGradient(size_t n) {
  std::vector<float> values = NormalValues(n, 1);
  for (size_t i = 0; i < n; ++i) values[i] *= i % 3 == 0 ? 1e-38f : i % 3 == 1 ? 1e-41f : 1e-30f;
  return values;
}

TEST(SubnormalTest, SumsAndRecoversTheSameInBothModes) {
  const std::vector<float> gradient = TinyGradient(5000);
  for (const std::string spec :
       {"count_sketch:rows=5,columns=300,k=50", "count_sketch:columns=5000,k=50,recovery=heavymix",
        "count_sketch:rows=1,columns=100000,k=5000", "shared_randomk:ratio=0.1"}) {
    SCOPED_TRACE(spec);
    const auto compressor = LinearCompressor::FromSpec(spec).value();
    const LinearCodec& codec = compressor->codec();
    std::vector<float> payload(codec.PayloadSize(5000)), flushed_payload(payload.size());
    std::vector<uint32_t> indices, flushed_indices;
    std::vector<float> values, flushed_values;
    ASSERT_TRUE(codec.Encode(gradient, {1}, Span<float>(payload)).ok());
    // What summing on the way makes of a payload may be subnormal.
    std::vector<float> summed = payload;
    for (size_t i = 0; i < summed.size(); i += 7) summed[i] *= 1e-4f;
    ASSERT_TRUE(codec.Recover(summed, 5000, {1}, &indices, &values).ok());
    {
      FlushedSubnormals mode;
      ASSERT_TRUE(codec.Encode(gradient, {1}, Span<float>(flushed_payload)).ok());
      ASSERT_TRUE(codec.Recover(summed, 5000, {1}, &flushed_indices, &flushed_values).ok());
    }
    EXPECT_EQ(std::memcmp(flushed_payload.data(), payload.data(), 4 * payload.size()), 0);
    EXPECT_EQ(flushed_indices, indices);
    EXPECT_EQ(std::memcmp(flushed_values.data(), values.data(), 4 * values.size()), 0);
  }
}

}  // namespace
}  // namespace tfcompress

#endif  // __SSE2__
