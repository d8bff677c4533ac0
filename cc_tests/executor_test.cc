#include "core/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace tfcompress {
namespace {

void ExpectEachTaskOnce(Executor* executor, int64_t num_tasks) {
  std::vector<std::atomic<int>> counts(static_cast<size_t>(num_tasks));
  executor->ParallelFor(num_tasks, [&](int64_t i) { ++counts[i]; });
  for (const auto& count : counts) EXPECT_EQ(count, 1);
}

TEST(Executor, RunsEachTaskOnce) {
  for (int64_t num_tasks : {0, 1, 2, 3, 100}) {
    ExpectEachTaskOnce(SerialExecutor(), num_tasks);
    for (int num_threads : {1, 2, 8}) {
      ThreadExecutor threads(num_threads);
      ExpectEachTaskOnce(&threads, num_tasks);
    }
  }
}

TEST(ThreadExecutor, RunsTasksSideBySide) {
  // Each task waits for the other: a serial execution would never end.
  ThreadExecutor threads(2);
  std::atomic<int> num_arrived{0};
  threads.ParallelFor(2, [&](int64_t) {
    ++num_arrived;
    while (num_arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(num_arrived, 2);
}

using Blocks = std::vector<std::pair<int64_t, int64_t>>;

Blocks BlocksOf(int64_t num_elements, int64_t block_elements) {
  Blocks blocks;
  const auto body = [&](int64_t block, int64_t begin, int64_t end) {
    EXPECT_EQ(block, static_cast<int64_t>(blocks.size()));
    blocks.emplace_back(begin, end);
  };
  ForEachBlock(SerialExecutor(), num_elements, body, block_elements);
  return blocks;
}

TEST(ForEachBlock, CutsByElementsAlone) {
  EXPECT_EQ(BlocksOf(0, 10), Blocks{});
  EXPECT_EQ(BlocksOf(1, 10), (Blocks{{0, 1}}));
  EXPECT_EQ(BlocksOf(10, 10), (Blocks{{0, 10}}));
  EXPECT_EQ(BlocksOf(11, 10), (Blocks{{0, 10}, {10, 11}}));
  EXPECT_EQ(BlocksOf(30, 10), (Blocks{{0, 10}, {10, 20}, {20, 30}}));
  EXPECT_EQ(NumBlocks(2 * kBlockElements + 1), 3);
}

TEST(ForEachBlock, KeepsASingleBlockOnTheCallingThread) {
  ThreadExecutor threads(4);
  std::thread::id runner;
  ForEachBlock(&threads, kBlockElements,
               [&](int64_t, int64_t, int64_t) { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id());
}

}  // namespace
}  // namespace tfcompress
