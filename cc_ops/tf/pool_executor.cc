#include "tf/pool_executor.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tfcompress {

void PoolExecutor::Run(int64_t num_tasks, const Task& task) {
  const int64_t num_threads = std::min<int64_t>(num_tasks, pool_->NumThreads());
  ShareTasks(num_tasks, task, num_threads - 1,
             [this](std::function<void()> body) { pool_->Schedule(std::move(body)); });
}

}  // namespace tfcompress
