// The floating-point mode of the core. TensorFlow flushes subnormal numbers to zero on its own
// threads and not on the caller's; replicas would differ if arithmetic took the mode of the thread
// that happens to run it.
#ifndef TFCOMPRESS_CORE_FLOAT_MODE_H_
#define TFCOMPRESS_CORE_FLOAT_MODE_H_

#include <cstdint>

namespace tfcompress {

// Sets IEEE 754's default mode on this thread, and restores the thread's own mode at its end:
// rounding to nearest, subnormal numbers kept, no traps. Stands where the core is entered
// (pipeline.h, rows.h, pieces.h, linear_codec.h, linear/low_rank.h, the bindings of single codecs)
// and around each task of an executor. Costs a few cycles; scopes nest.
class FloatModeScope {
 public:
  // Out of line: no arithmetic moves across the calls.
  FloatModeScope();
  ~FloatModeScope();
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 private:
  uint64_t entered_;  // The control register of the thread.
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_FLOAT_MODE_H_
