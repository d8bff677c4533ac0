// Runs the core's tasks on TensorFlow's intra-op thread pool.
#ifndef TFCOMPRESS_TF_POOL_EXECUTOR_H_
#define TFCOMPRESS_TF_POOL_EXECUTOR_H_

#include <cstdint>

#include "core/executor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tfcompress {

// The calling thread takes tasks too, and waits only for tasks that have begun: a pool whose
// threads are all busy, perhaps with kernels that wait themselves, costs speed and never a
// deadlock. (The pool's own ParallelFor has no signature that TensorFlow 2.15 to 2.21 share without
// deprecation.)
class PoolExecutor : public Executor {
 public:
  // Borrows the pool of the device that runs `ctx`.
  explicit PoolExecutor(tensorflow::OpKernelContext* ctx)
      : pool_(ctx->device()->tensorflow_cpu_worker_threads()->workers) {}

 protected:
  void Run(int64_t num_tasks, const Task& task) override;

 private:
  tensorflow::thread::ThreadPool* pool_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_POOL_EXECUTOR_H_
