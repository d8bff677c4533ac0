// What differs between a device (platform_device.cc) and the emulator (platform_emulated.cc), which
// has no graphs.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_BENCH_PLATFORM_H_
#define TFCOMPRESS_CC_TESTS_CUDA_BENCH_PLATFORM_H_

#include <cuda_runtime.h>

#include <functional>

#include "core/status.h"

namespace tfcompress {
namespace device {

// Runs that are timed. Over the emulator, where times mean nothing, one.
extern const int kRepetitions;

// Returns the number of kernels, copies and memsets that `work` puts on the stream, which does not
// run them; -1 if it cannot be captured, as over the emulator.
int CountLaunches(const std::function<Status()>& work, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_BENCH_PLATFORM_H_
