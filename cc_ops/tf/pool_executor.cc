#include "tf/pool_executor.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>

namespace tfcompress {
namespace {

// What the threads of one ParallelFor share. Outlives the call: a helper that the pool starts late
// must still find that nothing is left.
struct Work {
  int64_t num_tasks;
  const std::function<void(int64_t)>* task;  // Alive until the last task is done.
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> num_done{0};
  std::promise<void> all_done;

  Work(int64_t num_tasks, const std::function<void(int64_t)>* task)
      : num_tasks(num_tasks), task(task) {}

  void Run() {
    for (int64_t i = next++; i < num_tasks; i = next++) {
      (*task)(i);
      if (++num_done == num_tasks) all_done.set_value();
    }
  }
};

}  // namespace

void PoolExecutor::ParallelFor(int64_t num_tasks, const std::function<void(int64_t)>& task) {
  const int64_t num_threads = std::min<int64_t>(num_tasks, pool_->NumThreads());
  if (num_threads <= 1) return SerialExecutor()->ParallelFor(num_tasks, task);
  const auto work = std::make_shared<Work>(num_tasks, &task);
  for (int64_t helper = 1; helper < num_threads; ++helper) {
    pool_->Schedule([work] { work->Run(); });
  }
  work->Run();
  work->all_done.get_future().wait();
}

}  // namespace tfcompress
