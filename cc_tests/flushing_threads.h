// Threads that flush subnormal numbers to zero, as TensorFlow's do and the caller's do not.
#ifndef TFCOMPRESS_CC_TESTS_FLUSHING_THREADS_H_
#define TFCOMPRESS_CC_TESTS_FLUSHING_THREADS_H_

#include <cstdint>

#include "core/executor.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tfcompress {

// Flushes on this thread.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() : mode_(_mm_getcsr()) { _mm_setcsr(mode_ | kFlushResults | kFlushInputs); }
  ~FlushSubnormals() { _mm_setcsr(static_cast<unsigned>(mode_)); }

  static constexpr bool kIsSupported = true;

 private:
  static constexpr unsigned kFlushResults = 0x8000;
  static constexpr unsigned kFlushInputs = 0x0040;
#elif defined(__aarch64__)
  FlushSubnormals() : mode_(Read()) { Write(mode_ | kFlush); }
  ~FlushSubnormals() { Write(mode_); }

  static constexpr bool kIsSupported = true;

 private:
  static constexpr uint64_t kFlush = uint64_t{1} << 24;

  static uint64_t Read() {
    uint64_t mode;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void Write(uint64_t mode) { __asm__ __volatile__("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr bool kIsSupported = false;

 private:
#endif
  uint64_t mode_ = 0;
};

// Whether arithmetic on this thread flushes now.
inline bool Flushes() {
  volatile float least_normal = 0x1p-126f;
  volatile float half = least_normal * 0.5f;
  return half == 0.0f;
}

// Runs every second task on a flushing thread, as a pool does whose caller takes tasks too.
class EverySecondTaskFlushes : public Executor {
 protected:
  void Run(int64_t num_tasks, const Task& task) override {
    for (int64_t i = 0; i < num_tasks; ++i) {
      if (i % 2 == 0) {
        task(i);
      } else {
        const FlushSubnormals mode;
        task(i);
      }
    }
  }
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_FLUSHING_THREADS_H_
