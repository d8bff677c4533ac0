// Values are sorted and ranked on the device as in the core.
#include "cuda/sorted_values.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "contract_inputs.h"
#include "core/bit_io.h"
#include "core/hash.h"
#include "core/value/sorted_values.h"
#include "cuda/value_codes.h"
#include "device_inputs.h"
#include "device_memory.h"
#include "given_values.h"

namespace tfcompress {
namespace device {
namespace {

// Room for more values than there are.
constexpr uint32_t kSpare = 37;

std::vector<uint32_t> KeysOf(const SortedValues& sorted) {
  std::vector<uint32_t> keys;
  for (uint64_t item : sorted.nonnegative()) keys.push_back(ItemKey(item));
  for (uint64_t item : sorted.negative()) keys.push_back(ItemKey(item));
  return keys;
}

std::vector<uint32_t> RanksOf(const SortedValues& sorted, size_t count) {
  Bytes packed;
  ByteWriter writer(&packed);
  sorted.WriteRanks(SerialExecutor(), &writer);
  std::vector<uint32_t> ranks(count);
  UnpackBits(packed, BitsFor(count), SerialExecutor(), ranks);
  return ranks;
}

void ExpectSameOrder(const std::vector<std::vector<float>>& lists, const Stream& stream) {
  GivenFrames given(lists, kSpare, stream);
  SortedBuffers buffers;
  Workspace measure;
  ExpectOk(TakeSortedBuffers(given.on_host(), &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeSortedBuffers(given.on_host(), &carve, &buffers));
  ExpectOk(SortValues(given.Table(stream), buffers, stream.get()));
  const std::vector<uint64_t> begins = Read(buffers.begins_dev, lists.size() + 1, stream);
  for (size_t i = 0; i < lists.size(); ++i) {
    const size_t count = lists[i].size();
    SCOPED_TRACE(testing::Message() << count << " values");
    const SortedValues expected(lists[i], SerialExecutor());
    ASSERT_EQ(begins[i + 1] - begins[i], count);
    ASSERT_TRUE(Read(buffers.keys_dev() + begins[i], count, stream) == KeysOf(expected));
    ASSERT_TRUE(Read(buffers.ranks_dev() + begins[i], count, stream) == RanksOf(expected, count));
  }
}

TEST(SortedValues, OrdersEveryInput) {
  const Stream stream;
  uint64_t seed = 1;
  for (const Input& input : Inputs()) {
    SCOPED_TRACE(input.name);
    std::vector<std::vector<float>> lists;
    for (size_t n : {0, 1, 2, 31, 257, 0, 3000, 5}) {
      lists.push_back(input.make(n, ++seed));
      ASSERT_NO_FATAL_FAILURE(ExpectSameOrder({lists.back()}, stream));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSameOrder(lists, stream));
  }
}

// More than one value per thread, and ranks of more than 16 bits.
TEST(SortedValues, OrdersManyValues) {
  const Stream stream;
  ASSERT_NO_FATAL_FAILURE(ExpectSameOrder({NormalValues(300001, 1)}, stream));
}

// Part numbers of more than one digit of the sort.
TEST(SortedValues, OrdersManyFrames) {
  const Stream stream;
  std::vector<std::vector<float>> lists;
  for (size_t i = 0; i < 700; ++i) lists.push_back(NormalValues(i % 13, i));
  ASSERT_NO_FATAL_FAILURE(ExpectSameOrder(lists, stream));
}

// Ranks have up to 31 bits; no test has enough values for all widths, so this packs them directly.
TEST(SortedValues, PacksRanksOfAnyWidth) {
  Random random(1);
  for (int num_bits = 1; num_bits <= 31; ++num_bits) {
    std::vector<uint32_t> ranks(5 * BitPacking::kGroup + 3);
    for (uint32_t& rank : ranks) rank = static_cast<uint32_t>(random.Next64() >> (64 - num_bits));
    ranks[3] = (1u << num_bits) - 1;
    Bytes expected(PackedBytes(ranks.size(), num_bits)), actual(expected.size());
    PackBits(ranks, num_bits, SerialExecutor(), expected.data());
    const BitPacking packing(actual.data(), num_bits);
    for (size_t begin = 0; begin < ranks.size(); begin += BitPacking::kGroup) {
      const size_t size = std::min<size_t>(BitPacking::kGroup, ranks.size() - begin);
      packing.Store(begin / BitPacking::kGroup, &ranks[begin], static_cast<int>(size));
    }
    ASSERT_TRUE(actual == expected) << num_bits;
    for (size_t i = 0; i < ranks.size(); ++i) ASSERT_EQ(packing.Load(i), ranks[i]) << num_bits;
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
