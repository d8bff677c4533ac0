// Where parallel work runs. The core cuts work into blocks of a fixed number of elements, never by
// the number of threads, so bytes do not depend on the executor.
#ifndef TFCOMPRESS_CORE_EXECUTOR_H_
#define TFCOMPRESS_CORE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/float_mode.h"

namespace tfcompress {

using Task = std::function<void(int64_t)>;

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs task(0) ... task(num_tasks - 1), in any order and on any threads, each in the core's
  // floating-point mode, and returns when all are done. Tasks must not call ParallelFor: an
  // executor may run on a pool that cannot nest. The first exception of a task is thrown when no
  // task runs any more; those that had not begun are then skipped.
  void ParallelFor(int64_t num_tasks, const Task& task) {
    Run(num_tasks, [&task](int64_t i) {
      const FloatModeScope mode;
      task(i);
    });
  }

 protected:
  virtual void Run(int64_t num_tasks, const Task& task) = 0;
};

// Runs every task on the calling thread. Stateless, lives for the whole process.
Executor* SerialExecutor();

// Runs tasks on up to `num_threads` threads started for each call, or on those that the system
// grants. For tests, the benchmark and the NumPy-level API; inside TensorFlow the op brings an
// executor over TensorFlow's own pool.
class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(int num_threads) : num_threads_(num_threads) {}

 protected:
  void Run(int64_t num_tasks, const Task& task) override;
  // Throws std::system_error where there is no thread to be had.
  virtual std::thread StartThread(std::function<void()> body);

 private:
  int num_threads_;
};

// Shares the tasks between the calling thread and up to `num_helpers` others, if any: calls
// start_helper(body) for each, which has another thread call body() at some time or throws
// std::exception, after which no more are asked for. Waits only for tasks that have begun: a body
// called after the return finds nothing to do. Throws what a task threw, as ParallelFor.
void ShareTasks(int64_t num_tasks, const Task& task, int64_t num_helpers,
                const std::function<void(std::function<void()> body)>& start_helper);

// Elements of a block of dense work (compensation, selection, packing, Bloom queries). 64Ki floats
// are 256 KiB: they stay in a core's L2 between the passes over a block.
inline constexpr int64_t kBlockElements = int64_t{1} << 16;

inline int64_t NumBlocks(int64_t num_elements, int64_t block_elements = kBlockElements) {
  return (num_elements + block_elements - 1) / block_elements;
}

// Calls body(block, begin, end) for the fixed blocks of [0, num_elements). A single block runs on
// the calling thread.
template <typename Body>
void ForEachBlock(Executor* executor, int64_t num_elements, const Body& body,
                  int64_t block_elements = kBlockElements) {
  const int64_t num_blocks = NumBlocks(num_elements, block_elements);
  auto task = [&](int64_t block) {
    const int64_t begin = block * block_elements;
    const int64_t end =
        begin + block_elements < num_elements ? begin + block_elements : num_elements;
    body(block, begin, end);
  };
  if (num_blocks == 1) {
    const FloatModeScope mode;
    task(0);
  } else if (num_blocks > 1) {
    executor->ParallelFor(num_blocks, task);
  }
}

// Calls body(begin, end) for the chunks of [0, num_elements), from several threads.
template <typename Body>
void ForEachChunk(Executor* executor, int64_t num_elements, int64_t chunk, const Body& body) {
  const auto block = [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += chunk) body(begin, begin + chunk < end ? begin + chunk : end);
  };
  ForEachBlock(executor, num_elements, block, chunk * NumBlocks(kBlockElements, chunk));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_EXECUTOR_H_
