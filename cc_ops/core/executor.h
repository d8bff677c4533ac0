// Where parallel work runs. The core cuts work into blocks of a fixed number of elements, never by
// the number of threads, so bytes do not depend on the executor.
#ifndef TFCOMPRESS_CORE_EXECUTOR_H_
#define TFCOMPRESS_CORE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace tfcompress {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs task(0) ... task(num_tasks - 1), in any order and on any threads, and returns when all are
  // done. Tasks must not call ParallelFor: an executor may run on a pool that cannot nest.
  virtual void ParallelFor(int64_t num_tasks, const std::function<void(int64_t)>& task) = 0;
};

// Runs every task on the calling thread. Stateless, lives for the whole process.
Executor* SerialExecutor();

// Runs tasks on up to `num_threads` threads started for each call. For tests, the benchmark and the
// NumPy-level API; inside TensorFlow the op brings an executor over TensorFlow's own pool.
class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(int num_threads) : num_threads_(num_threads) {}
  void ParallelFor(int64_t num_tasks, const std::function<void(int64_t)>& task) override;

 private:
  int num_threads_;
};

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
    task(0);
  } else if (num_blocks > 1) {
    executor->ParallelFor(num_blocks, task);
  }
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_EXECUTOR_H_
