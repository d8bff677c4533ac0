#include "core/executor.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace tfcompress {
namespace {

class Serial : public Executor {
 public:
  void ParallelFor(int64_t num_tasks, const std::function<void(int64_t)>& task) override {
    for (int64_t i = 0; i < num_tasks; ++i) task(i);
  }
};

}  // namespace

Executor* SerialExecutor() {
  static Serial executor;
  return &executor;
}

void ThreadExecutor::ParallelFor(int64_t num_tasks, const std::function<void(int64_t)>& task) {
  const int64_t num_workers = std::min<int64_t>(num_threads_, num_tasks);
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t i = next++; i < num_tasks; i = next++) task(i);
  };
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < num_workers; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tfcompress
