// The kernels for GPUs on TensorFlow's CPU device: all memory passes for a device's.
#include "tf/cuda/device_memory.h"

namespace tfcompress {

cudaStream_t StreamOf(tensorflow::OpKernelContext*) {
  emulator::TrustAllPointers();
  emulator::RunAtOnce(true);
  return nullptr;
}

}  // namespace tfcompress
