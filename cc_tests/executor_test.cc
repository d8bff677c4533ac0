#include "core/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <system_error>
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

// A thread executor of which the system refuses all threads but a few.
class FewThreads : public ThreadExecutor {
 public:
  FewThreads(int num_threads, int num_granted)
      : ThreadExecutor(num_threads), num_granted_(num_granted) {}

 protected:
  std::thread StartThread(std::function<void()> body) override {
    if (num_granted_-- <= 0) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    return ThreadExecutor::StartThread(std::move(body));
  }

 private:
  int num_granted_;
};

TEST(ThreadExecutor, WorksOnTheThreadsThatItGets) {
  for (int num_granted : {0, 1, 2, 7}) {
    FewThreads threads(8, num_granted);
    ExpectEachTaskOnce(&threads, 100);
  }
}

// Starts helpers at once, or only when the call is over.
class PoolStandIn : public Executor {
 public:
  explicit PoolStandIn(bool starts_late) : starts_late_(starts_late) {}
  ~PoolStandIn() override {
    for (std::thread& thread : threads_) thread.join();
  }

  void RunLateHelpers() {
    for (const auto& body : late_) body();
  }

 protected:
  void Run(int64_t num_tasks, const Task& task) override {
    ShareTasks(num_tasks, task, kNumHelpers, [this](std::function<void()> body) {
      if (starts_late_) {
        late_.push_back(std::move(body));
      } else {
        threads_.emplace_back(std::move(body));
      }
    });
  }

 private:
  static constexpr int kNumHelpers = 3;
  bool starts_late_;
  std::vector<std::function<void()>> late_;
  std::vector<std::thread> threads_;
};

// `num_calls` counts tasks that ran; the one of index `failing` throws.
void ExpectThrows(Executor* executor, int64_t num_tasks, int64_t failing,
                  std::atomic<int>* num_calls) {
  try {
    executor->ParallelFor(num_tasks, [&](int64_t i) {
      ++*num_calls;
      if (i == failing) throw std::runtime_error("task failed");
    });
    FAIL() << "no exception of task " << failing << " of " << num_tasks;
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "task failed");
  }
}

TEST(Executor, ThrowsWhatATaskThrows) {
  for (int64_t num_tasks : {1, 2, 100}) {
    for (int64_t failing : {int64_t{0}, num_tasks / 2, num_tasks - 1}) {
      std::atomic<int> num_calls{0};
      ThreadExecutor threads(4);
      PoolStandIn pool(/*starts_late=*/false);
      ExpectThrows(SerialExecutor(), num_tasks, failing, &num_calls);
      ExpectThrows(&threads, num_tasks, failing, &num_calls);
      ExpectThrows(&pool, num_tasks, failing, &num_calls);
      ExpectEachTaskOnce(&threads, num_tasks);
    }
  }
}

TEST(Executor, WaitsForRunningTasksBeforeItThrows) {
  ThreadExecutor threads(2);
  std::atomic<int> num_arrived{0};
  std::atomic<bool> other_is_done{false};
  EXPECT_THROW(threads.ParallelFor(2,
                                   [&](int64_t i) {
                                     ++num_arrived;
                                     while (num_arrived < 2) std::this_thread::yield();
                                     if (i == 0) throw std::runtime_error("task failed");
                                     for (int turn = 0; turn < 1000; ++turn)
                                       std::this_thread::yield();
                                     other_is_done = true;
                                   }),
               std::runtime_error);
  EXPECT_TRUE(other_is_done);
}

TEST(ShareTasks, LateHelpersFindNothing) {
  PoolStandIn pool(/*starts_late=*/true);
  std::atomic<int> num_calls{0};
  ExpectThrows(&pool, 100, 3, &num_calls);
  EXPECT_EQ(num_calls, 4);  // The caller alone takes them in order, and none after the failure.
  ExpectEachTaskOnce(&pool, 100);
  pool.RunLateHelpers();  // The tasks that they were meant for are gone.
  EXPECT_EQ(num_calls, 4);
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
