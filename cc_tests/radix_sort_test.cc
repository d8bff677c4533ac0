#include "core/radix_sort.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/float_order.h"
#include "core/hash.h"
#include "gtest/gtest.h"

namespace tfcompress {
namespace {

std::vector<uint64_t> RandomItems(size_t size, uint32_t key_range) {
  Random random(size);
  std::vector<uint64_t> items;
  for (size_t i = 0; i < size; ++i) {
    items.push_back(PackItem(random.Below(key_range), static_cast<uint32_t>(i)));
  }
  return items;
}

void StableSort(std::vector<uint64_t>* items) {
  std::stable_sort(items->begin(), items->end(),
                   [](uint64_t a, uint64_t b) { return ItemKey(a) < ItemKey(b); });
}

TEST(RadixSortTest, SortsByKeyAndKeepsTheOrderOfEqualKeys) {
  for (size_t size : {0, 1, 2, 7, 1000, 65536, 65537, 140000}) {
    for (uint32_t range : {1u, 5u, 3000u, 0xFFFFFFFFu}) {
      std::vector<uint64_t> items = RandomItems(size, range);
      std::vector<uint64_t> expected = items;
      StableSort(&expected);
      RadixSortByKey(SerialExecutor(), &items);
      EXPECT_EQ(items, expected) << size << " items, keys below " << range;
    }
  }
}

TEST(RadixSortTest, IsTheSameForEveryExecutor) {
  std::vector<uint64_t> serial = RandomItems(300000, 1000);
  std::vector<uint64_t> parallel = serial;
  ThreadExecutor executor(4);
  RadixSortByKey(SerialExecutor(), &serial);
  RadixSortByKey(&executor, &parallel);
  EXPECT_EQ(serial, parallel);
}

TEST(RadixSortTest, SortsByTheGivenBitsOnly) {
  for (int num_bits : {1, 10, 11, 12, 23, 32}) {
    std::vector<uint64_t> items = RandomItems(5000, 0xFFFFFFFFu);
    for (uint64_t& item : items) item &= ((uint64_t{1} << num_bits) - 1) << 32 | 0xFFFFFFFFu;
    std::vector<uint64_t> expected = items;
    StableSort(&expected);
    RadixSort(32, num_bits, SerialExecutor(), &items);
    EXPECT_EQ(items, expected) << num_bits << " bits";
  }
}

TEST(FloatOrderTest, KeysAreOrderedAsTheirFloats) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> ascending = {
      Limits::lowest(),     -1.5f,         -1.0f, -Limits::min(), -Limits::denorm_min(), 0.0f,
      Limits::denorm_min(), Limits::min(), 1.0f,  1.5f,           Limits::max()};
  for (size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(OrderedKey(ascending[i - 1]), OrderedKey(ascending[i])) << ascending[i];
  }
  EXPECT_EQ(OrderedKey(0.0f), kZeroKey);
  EXPECT_EQ(OrderedKey(-0.0f), kZeroKey);
  EXPECT_FALSE(IsNegative(-0.0f));
  EXPECT_TRUE(IsNegative(-Limits::denorm_min()));
}

}  // namespace
}  // namespace tfcompress
