#include "core/executor.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <utility>

namespace tfcompress {
namespace {

void RunInOrder(int64_t num_tasks, const Task& task) {
  for (int64_t i = 0; i < num_tasks; ++i) task(i);
}

class Serial : public Executor {
 protected:
  void Run(int64_t num_tasks, const Task& task) override { RunInOrder(num_tasks, task); }
};

// What the threads of one ShareTasks share. Outlives the call: a helper that starts late must still
// find that nothing is left.
class SharedTasks {
 public:
  SharedTasks(int64_t num_tasks, const Task* task) : num_tasks_(num_tasks), task_(task) {}

  // Takes tasks until none is left. After a failure they are counted and not run, so that the
  // caller is woken in every case, and `task_` is not used after that.
  void Work() {
    for (int64_t i = next_++; i < num_tasks_; i = next_++) {
      if (!failed_) TryTask(i);
      if (++num_done_ == num_tasks_) all_done_.set_value();
    }
  }

  // Called once. Throws what a task threw.
  void Wait() {
    all_done_.get_future().wait();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void TryTask(int64_t i) {
    try {
      (*task_)(i);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  const int64_t num_tasks_;
  const Task* const task_;  // Alive until the last task is done.
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> num_done_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // Of the task that failed first; written before it counts as done.
  std::promise<void> all_done_;
};

// Threads that are joined however the scope is left.
struct JoinedThreads {
  std::vector<std::thread> threads;

  ~JoinedThreads() {
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace

Executor* SerialExecutor() {
  static Serial executor;
  return &executor;
}

void ShareTasks(int64_t num_tasks, const Task& task, int64_t num_helpers,
                const std::function<void(std::function<void()>)>& start_helper) {
  if (num_tasks <= 1 || num_helpers < 1) return RunInOrder(num_tasks, task);
  const auto tasks = std::make_shared<SharedTasks>(num_tasks, &task);
  try {
    for (int64_t i = 0; i < num_helpers; ++i) start_helper([tasks] { tasks->Work(); });
  } catch (const std::exception&) {
    // The threads that there are do all the work.
  }
  tasks->Work();
  tasks->Wait();
}

std::thread ThreadExecutor::StartThread(std::function<void()> body) {
  return std::thread(std::move(body));
}

void ThreadExecutor::Run(int64_t num_tasks, const Task& task) {
  const int64_t num_helpers = std::min<int64_t>(num_threads_, num_tasks) - 1;
  JoinedThreads joined;
  joined.threads.reserve(static_cast<size_t>(std::max<int64_t>(0, num_helpers)));
  ShareTasks(num_tasks, task, num_helpers, [&](std::function<void()> body) {
    joined.threads.push_back(StartThread(std::move(body)));
  });
}

}  // namespace tfcompress
