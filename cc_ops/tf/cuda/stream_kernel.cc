#include "tf/cuda/stream_kernel.h"

#include <cuda_runtime.h>

#include <utility>

#include "cuda/cuda_status.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

// Kernels, and encodings of several, that run at the same time in the process: while one waits,
// others are launched. Each has a workspace, and on the host some threads of TensorFlow's intra-op
// pool.
constexpr int kNumThreads = 4;

// They are not those of TensorFlow's pools, where ops on the CPU would wait behind kernels that
// wait, nor those of Env::SchedClosure, which starts one for each call.
tensorflow::thread::ThreadPool* Threads() {
  static auto* const threads = new tensorflow::thread::ThreadPool(
      tensorflow::Env::Default(), tensorflow::ThreadOptions(), "tfcompress", kNumThreads,
      /*low_latency_hint=*/false);
  return threads;
}

}  // namespace

void RunWithDevice(std::function<void(absl::Status)> run) {
  int ordinal = 0;
  const Status found = device::FromCuda(cudaGetDevice(&ordinal), "finding the current device");
  if (!found.ok()) return run(ToTensorFlow(found));
  Threads()->Schedule([ordinal, run = std::move(run)] {
    run(ToTensorFlow(device::FromCuda(cudaSetDevice(ordinal), "making the device current")));
  });
}

void StreamKernel::ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) {
  RunWithDevice([this, ctx, done = std::move(done)](absl::Status status) {
    if (status.ok()) status = Run(ctx);
    ctx->SetStatus(status);
    done();  // Afterwards `this` and `ctx` may be gone.
  });
}

}  // namespace tfcompress
