// TensorFlow flushes subnormal numbers on its own threads and not on the caller's: whatever the
// mode of the threads that run it, the core must make the same bits of the same input, or replicas
// drift apart.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "contract_inputs.h"
#include "core/float_mode.h"
#include "core/linear_compressor.h"
#include "core/pipeline.h"
#include "flushing_threads.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

// Two ranks' gradients: floats of every size, many of them subnormal, and sums that are subnormal
// while their terms are not.
std::vector<float> TinyGradient(size_t n, int rank) {
  const FloatModeScope same_in_all_modes;
  std::vector<float> values = NormalValues(n, 1);
  for (size_t i = 0; i < n; ++i) {
    values[i] *= i % 4 == 0 ? 1e-38f : i % 4 == 1 ? 1e-41f : i % 4 == 2 ? 1e-30f : 2e-38f;
    if (rank == 1 && i % 4 == 3) values[i] *= -1.25f;
  }
  return values;
}

template <typename T>
void ExpectSameBits(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  size_t num_different = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    num_different += std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0;
  EXPECT_EQ(num_different, 0u) << "of " << actual.size();
}

// `run(executor, what)` yields bits. The same are expected of threads that all keep subnormal
// numbers, all flush them, or differ.
template <typename Result>
void ExpectSameInAllModes(const std::function<Result(Executor*)>& run,
                          const std::function<void(const Result&, const Result&)>& expect_same) {
  if (!FlushSubnormals::kIsSupported) GTEST_SKIP() << "no known way to flush on this processor";
  const Result kept = run(SerialExecutor());
  EverySecondTaskFlushes mixed;
  ThreadExecutor threads(3);
  {
    SCOPED_TRACE("every second task on a flushing thread");
    expect_same(run(&mixed), kept);
  }
  const FlushSubnormals mode;
  {
    SCOPED_TRACE("the caller flushes");
    expect_same(run(SerialExecutor()), kept);
  }
  SCOPED_TRACE("the caller and the threads that it starts flush");
  expect_same(run(&threads), kept);
  EXPECT_TRUE(Flushes()) << "the caller's mode was not restored";
}

TEST(FloatModeScope, SetsAndRestoresTheMode) {
  if (!FlushSubnormals::kIsSupported) GTEST_SKIP() << "no known way to flush on this processor";
  EXPECT_FALSE(Flushes());
  {
    const FlushSubnormals flushing;
    EXPECT_TRUE(Flushes());
    {
      const FloatModeScope mode;
      EXPECT_FALSE(Flushes());
      {
        const FloatModeScope nested;
        EXPECT_FALSE(Flushes());
      }
      EXPECT_FALSE(Flushes());
    }
    EXPECT_TRUE(Flushes());
  }
  EXPECT_FALSE(Flushes());
}

// What a step makes of the gradients of two ranks.
struct Step {
  std::vector<Bytes> frames;
  std::vector<float> slots;
  std::vector<unsigned char> sum;
};

void ExpectSameStep(const Step& actual, const Step& expected) {
  EXPECT_EQ(actual.frames, expected.frames);
  ExpectSameBits(actual.slots, expected.slots);
  ExpectSameBits(actual.sum, expected.sum);
}

Step RunStep(const std::string& spec, size_t n, DType dtype, Executor* executor) {
  const auto compressor = Compressor::FromSpec(spec).value();
  Step step;
  Bytes packets;
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<float> wide = TinyGradient(n, rank);
    std::vector<unsigned char> gradient(n * DTypeBytes(dtype));
    NarrowFromFloat(wide, dtype, SerialExecutor(), gradient.data());
    // A residual whose sum with the gradient is subnormal where neither is.
    std::vector<std::vector<float>> slots(compressor->memory().num_slots(),
                                          TinyGradient(n, 1 - rank));
    std::vector<float*> slot_data;
    for (auto& slot : slots) slot_data.push_back(slot.data());
    Bytes frame;
    const Status status =
        EncodeFrame(*compressor, {gradient.data(), dtype, n}, slot_data, {7, executor}, &frame);
    EXPECT_TRUE(status.ok()) << status.message();
    packets.insert(packets.end(), frame.begin(), frame.end());
    step.frames.push_back(frame);
    for (const auto& slot : slots) step.slots.insert(step.slots.end(), slot.begin(), slot.end());
  }
  step.sum.resize(n * DTypeBytes(dtype));
  const SumTarget target = {step.sum.data(), dtype, n};
  const Status status =
      DecodeSum(packets, 2, 0.5f, Span<const SumTarget>(&target, 1), executor, {});
  EXPECT_TRUE(status.ok()) << status.message();
  return step;
}

class SubnormalTest : public testing::TestWithParam<SpecCase> {};

TEST_P(SubnormalTest, AStepIsTheSameInAllModes) {
  ExpectSameInAllModes<Step>(
      [](Executor* executor) { return RunStep(GetParam().spec, 3000, DType::kFloat32, executor); },
      ExpectSameStep);
}

INSTANTIATE_TEST_SUITE_P(EachPart, SubnormalTest, testing::ValuesIn(SpecsOfEachPart()),
                         [](const auto& info) { return TestName(info.param.spec); });

TEST(SubnormalSum, OfSeveralBlocksIsTheSameInAllModes) {
  constexpr size_t kNumElements = 3 * kBlockElements + 77;
  for (const std::string spec :
       {"dense|raw|raw", "residual|nonzero|bitmap|raw", "momentum|topk:ratio=0.5|raw|raw",
        "momentum:nesterov=1|topk:ratio=0.9|delta_binary|uniform:bits=16"}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      SCOPED_TRACE(spec + std::string(", ") + DTypeName(dtype));
      ExpectSameInAllModes<Step>(
          [&](Executor* executor) { return RunStep(spec, kNumElements, dtype, executor); },
          ExpectSameStep);
    }
  }
}

struct RowsStep {
  std::vector<Bytes> frames;
  std::vector<float> residual;
  SparseRows sum;
};

RowsStep RunRowsStep(const std::string& spec, uint64_t width, Executor* executor) {
  constexpr uint64_t kNumRows = 300;
  RowsStep step;
  Bytes packets;
  for (int rank = 0; rank < 2; ++rank) {
    RowsInput input = RandomRows(kNumRows, width, 400, 5);
    input.values = TinyGradient(input.values.size(), rank);
    step.residual = TinyGradient(kNumRows * width, 1 - rank);
    step.frames.push_back(
        MustEncodeRows(spec, input, &step.residual, "topk:ratio=0.7", {7, executor}));
    packets.insert(packets.end(), step.frames.back().begin(), step.frames.back().end());
  }
  const Status status = DecodeRowsSum({packets, 2, 1}, 0, {kNumRows, width, DType::kFloat32}, 0.5f,
                                      executor, &step.sum, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  return step;
}

TEST(SubnormalRows, AStepIsTheSameInAllModes) {
  for (const std::string spec : {"dense|raw|raw", "topk|bloom|quantile", "topk|rle|minmax",
                                 "nonzero|sketchml", "topk|delta_binary|dexp"}) {
    for (uint64_t width : {1, 7, 700}) {  // The last of several blocks.
      SCOPED_TRACE(spec + ", width " + std::to_string(width));
      ExpectSameInAllModes<RowsStep>(
          [&](Executor* executor) { return RunRowsStep(spec, width, executor); },
          [](const RowsStep& actual, const RowsStep& expected) {
            EXPECT_EQ(actual.frames, expected.frames);
            ExpectSameBits(actual.residual, expected.residual);
            EXPECT_EQ(actual.sum.ids, expected.sum.ids);
            ExpectSameBits(actual.sum.values, expected.sum.values);
          });
    }
  }
}

struct LinearStep {
  std::vector<float> payload;
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

LinearStep RunLinearStep(const LinearCodec& codec, const std::vector<float>& gradient,
                         Executor* executor) {
  const auto n = static_cast<int64_t>(gradient.size());
  LinearStep step;
  step.payload.resize(codec.PayloadSize(n));
  EXPECT_TRUE(codec.Encode(gradient, {1, executor}, Span<float>(step.payload)).ok());
  // What summing on the way makes of a payload may be subnormal.
  std::vector<float> summed = step.payload;
  {
    const FloatModeScope same_in_all_modes;
    for (size_t i = 0; i < summed.size(); i += 7) summed[i] *= 1e-4f;
  }
  EXPECT_TRUE(codec.Recover(summed, n, {1, executor}, &step.indices, &step.values).ok());
  return step;
}

TEST(SubnormalLinear, SumsAndRecoversTheSameInAllModes) {
  const std::vector<float> gradient = TinyGradient(5000, 0);
  for (const std::string spec :
       {"count_sketch:rows=5,columns=300,k=50", "count_sketch:columns=5000,k=50,recovery=heavymix",
        "count_sketch:rows=1,columns=100000,k=5000", "shared_randomk:ratio=0.1"}) {
    SCOPED_TRACE(spec);
    const auto compressor = LinearCompressor::FromSpec(spec).value();
    ExpectSameInAllModes<LinearStep>(
        [&](Executor* executor) { return RunLinearStep(compressor->codec(), gradient, executor); },
        [](const LinearStep& actual, const LinearStep& expected) {
          ExpectSameBits(actual.payload, expected.payload);
          EXPECT_EQ(actual.indices, expected.indices);
          ExpectSameBits(actual.values, expected.values);
        });
  }
}

}  // namespace
}  // namespace tfcompress
