// Measures how long work on a stream takes, without the work queued before it. For callers of the
// library.
#ifndef TFCOMPRESS_CUDA_STREAM_TIMER_H_
#define TFCOMPRESS_CUDA_STREAM_TIMER_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/cuda_status.h"

namespace tfcompress {
namespace device {

class StreamTimer {
 public:
  StreamTimer() = default;
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  ~StreamTimer() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }

  // Starts the timer. To be called once, before Stop.
  Status Start(cudaStream_t stream) {
    TFC_RETURN_IF_CUDA_ERROR(cudaEventCreate(&begin_));
    // Whoever waits for it sleeps, instead of keeping a core busy.
    TFC_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&end_, cudaEventBlockingSync));
    TFC_RETURN_IF_CUDA_ERROR(cudaEventRecord(begin_, stream));
    return OkStatus();
  }
  // Ends what is measured: the work put on the stream since Start.
  Status Stop(cudaStream_t stream) {
    TFC_RETURN_IF_CUDA_ERROR(cudaEventRecord(end_, stream));
    return OkStatus();
  }
  // Makes a stream wait for that work.
  Status MakeWait(cudaStream_t stream) const {
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream, end_, 0));
    return OkStatus();
  }
  // Waits for that work.
  Status Wait(int64_t* nanoseconds) const {
    TFC_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end_));
    float milliseconds = 0;
    TFC_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin_, end_));
    *nanoseconds = static_cast<int64_t>(milliseconds * 1e6);
    return OkStatus();
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_STREAM_TIMER_H_
