// Measures elapsed time.
#ifndef TFCOMPRESS_CORE_STOPWATCH_H_
#define TFCOMPRESS_CORE_STOPWATCH_H_

#include <chrono>
#include <cstdint>

namespace tfcompress {

class Stopwatch {
 public:
  // Time since construction.
  int64_t nanoseconds() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_STOPWATCH_H_
