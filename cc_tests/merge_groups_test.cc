#include "core/joint/merge_groups.h"

#include <algorithm>
#include <vector>

#include "core/hash.h"
#include "gtest/gtest.h"

namespace tfcompress {
namespace {

constexpr uint32_t kNumGroups = 3;

float ValueOf(uint32_t group, uint16_t offset) { return static_cast<float>(10 * group + offset); }

// Draws each key below n with this probability and puts it into one of the groups.
std::vector<DecodedGroup> RandomGroups(uint32_t n, float density) {
  std::vector<DecodedGroup> groups(kNumGroups);
  for (uint32_t group = 0; group < kNumGroups; ++group) {
    for (uint16_t offset = 0; offset < 5; ++offset)
      groups[group].values.push_back(ValueOf(group, offset));
  }
  Random random(n);
  for (uint32_t key = 0; key < n; ++key) {
    if (random.NextFloat() >= density) continue;
    GroupElements& elements = groups[random.Below(kNumGroups)].elements;
    elements.keys.push_back(key);
    elements.offsets.push_back(static_cast<uint16_t>(random.Below(5)));
  }
  return groups;
}

size_t NumKeys(const std::vector<DecodedGroup>& groups) {
  size_t num_keys = 0;
  for (const DecodedGroup& group : groups) num_keys += group.elements.keys.size();
  return num_keys;
}

void ExpectMerged(const std::vector<DecodedGroup>& groups, const SparseTensor& merged) {
  ASSERT_EQ(merged.values.size(), NumKeys(groups));
  ASSERT_EQ(merged.indices.size(), merged.everything ? 0 : NumKeys(groups));
  if (!merged.everything) {
    ASSERT_TRUE(CheckIndices(merged.indices, merged.n).ok());
  }
  for (uint32_t g = 0; g < kNumGroups; ++g) {
    const GroupElements& elements = groups[g].elements;
    for (size_t i = 0; i < elements.keys.size(); ++i) {
      const uint32_t key = elements.keys[i];
      const size_t rank =
          merged.everything ? key
                            : std::lower_bound(merged.indices.begin(), merged.indices.end(), key) -
                                  merged.indices.begin();
      ASSERT_LT(rank, merged.values.size());
      ASSERT_EQ(merged.values[rank], ValueOf(g, elements.offsets[i])) << "key " << key;
    }
  }
}

TEST(MergeGroupsTest, EveryDensity) {
  ThreadExecutor threads(3);
  for (const uint32_t n : {0u, 1u, 5u, 4096u, 4097u, 300000u}) {
    for (const float density : {0.0f, 0.001f, 0.05f, 0.3f, 0.97f, 1.0f}) {
      SCOPED_TRACE(testing::Message() << n << " elements, density " << density);
      const std::vector<DecodedGroup> groups = RandomGroups(n, density);
      for (Executor* executor : {SerialExecutor(), static_cast<Executor*>(&threads)}) {
        SparseTensor merged;
        merged.n = n;
        ASSERT_TRUE(MergeGroups(groups, executor, &merged).ok());
        ExpectMerged(groups, merged);
      }
      SparseTensor everything;
      everything.n = n;
      everything.everything = true;
      const Status status = MergeGroups(groups, SerialExecutor(), &everything);
      ASSERT_EQ(status.ok(), NumKeys(groups) == n);
      if (status.ok()) ExpectMerged(groups, everything);
    }
  }
}

// Adds a key of the first group to the last one.
void Repeat(size_t i, std::vector<DecodedGroup>* groups) {
  const uint32_t key = groups->front().elements.keys[i];
  GroupElements& elements = groups->back().elements;
  const auto place = std::lower_bound(elements.keys.begin(), elements.keys.end(), key);
  elements.offsets.insert(elements.offsets.begin() + (place - elements.keys.begin()), 0);
  elements.keys.insert(place, key);
}

TEST(MergeGroupsTest, RefusesAKeyInTwoGroups) {
  for (const float density : {0.001f, 0.3f, 1.0f}) {
    std::vector<DecodedGroup> groups = RandomGroups(100000, density);
    for (const size_t i : {size_t{0}, groups.front().elements.keys.size() - 1}) {
      std::vector<DecodedGroup> repeated = groups;
      Repeat(i, &repeated);
      SparseTensor merged;
      merged.n = 100000;
      EXPECT_EQ(MergeGroups(repeated, SerialExecutor(), &merged).code(), StatusCode::kDataLoss);
    }
  }
}

// As many keys as elements, one of them twice and another one missing: in the same tile, in other
// ones.
TEST(MergeGroupsTest, RefusesARepeatedKeyAmongEverything) {
  for (const bool everything : {false, true}) {
    for (const size_t missing : {size_t{1}, size_t{5000}}) {
      std::vector<DecodedGroup> groups = RandomGroups(100000, 1);
      Repeat(0, &groups);
      GroupElements& elements = groups[1].elements;
      elements.keys.erase(elements.keys.begin() + missing);
      elements.offsets.erase(elements.offsets.begin() + missing);
      SparseTensor merged;
      merged.n = 100000;
      merged.everything = everything;
      EXPECT_EQ(MergeGroups(groups, SerialExecutor(), &merged).code(), StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace tfcompress
