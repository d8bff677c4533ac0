// LargestSelector finds the positions that the core finds.
#include "cuda/largest_selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "contract_inputs.h"
#include "core/codec.h"
#include "core/hash.h"
#include "core/sparsify/select_largest.h"
#include "device_inputs.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {
namespace {

void ExpectSame(const std::vector<float>& values, size_t count, const Stream& stream) {
  std::vector<uint32_t> expected;
  tfcompress::SelectLargest(values, count, nullptr, &expected);
  const auto made = LargestSelector::Make(values.size(), count);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const DeviceVector<float> values_dev(values, stream);
  const DeviceVector<unsigned char> workspace(made.value().workspace_bytes());
  const DeviceVector<int64_t> positions(count);
  ExpectOk(made.value().Select(values_dev.data_dev(), workspace.buffer(), positions.data_dev(),
                               stream.get()));
  EXPECT_TRUE(positions.ToHost(stream) == std::vector<int64_t>(expected.begin(), expected.end()))
      << count << " of " << values.size();
}

TEST(LargestSelector, FindsTheSamePositions) {
  const Stream stream;
  for (size_t n : {0, 1, 31, 33, 1023, 1025, 7000}) {
    for (const Input& input : Inputs()) {
      SCOPED_TRACE(input.name);
      const std::vector<float> values = input.make(n, n + 2);
      for (size_t count : {size_t{0}, std::min<size_t>(n, 1), n / 3, n})
        ASSERT_NO_FATAL_FAILURE(ExpectSame(values, count, stream));
    }
  }
}

// More elements are equal than the list of candidates has room for.
TEST(LargestSelector, TakesTheFirstOfManyTies) {
  const Stream stream;
  std::vector<float> values(20000, -2.0f);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = 1.0f;
  ASSERT_NO_FATAL_FAILURE(ExpectSame(values, 100, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(values, 15000, stream));
}

// The bound that a sample tells leaves out zeros, and what only few elements of the vector exceed.
TEST(LargestSelector, TakesZerosAndWhatASampleOverlooks) {
  const Stream stream;
  for (size_t num_large : {size_t{3}, size_t{40}, size_t{2000}}) {
    std::vector<float> values(30000, 0.0f);
    for (size_t i = 0; i < num_large; ++i) values[HashKey(i, 3) % values.size()] = 1.0f + i;
    for (size_t count : {size_t{1}, size_t{50}, size_t{1500}, size_t{25000}})
      ASSERT_NO_FATAL_FAILURE(ExpectSame(values, count, stream));
    for (float& value : values) value += 1e-3f;
    ASSERT_NO_FATAL_FAILURE(ExpectSame(values, 50, stream));
  }
}

TEST(LargestSelector, TakesNaNBeforeInfBeforeNumbers) {
  const Stream stream;
  std::vector<float> values = Gradient(3000, 4);
  values[7] = values[2000] = INFINITY;
  values[1999] = -INFINITY;
  values[30] = values[2999] = NAN;
  values[8] = 3e38f;
  for (size_t count : {1, 2, 3, 4, 5, 6, 7, 100, 3000})
    ASSERT_NO_FATAL_FAILURE(ExpectSame(values, count, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(std::vector<float>(3000, NAN), 10, stream));
}

TEST(LargestSelector, RefusesWrongSizesAndSmallBuffers) {
  EXPECT_FALSE(LargestSelector::Make(kMaxElements + 1, 1).ok());
  EXPECT_FALSE(LargestSelector::Make(10, 11).ok());
  const auto made = LargestSelector::Make(10, 3);
  ASSERT_TRUE(made.ok());
  const Stream stream;
  const DeviceVector<float> values(10);
  const DeviceVector<int64_t> positions(3);
  const DeviceVector<unsigned char> memory(made.value().workspace_bytes());
  const auto is_refused = [&](const float* values_dev, size_t num_bytes, int64_t* positions_dev) {
    const DeviceBuffer workspace = {memory.data_dev(), num_bytes};
    return made.value().Select(values_dev, workspace, positions_dev, stream.get()).code() ==
           StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(is_refused(values.data_dev(), memory.size() - 1, positions.data_dev()));
  EXPECT_TRUE(is_refused(nullptr, memory.size(), positions.data_dev()));
  EXPECT_TRUE(is_refused(values.data_dev(), memory.size(), nullptr));
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
