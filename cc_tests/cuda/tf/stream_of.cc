// Lets the kernels for GPUs run on TensorFlow's CPU device: accepts all memory as device memory.
#include "tf/cuda/device_memory.h"

namespace tfcompress {

cudaStream_t StreamOf(tensorflow::OpKernelContext*) {
  emulator::TrustAllPointers();
  emulator::RunAtOnce(true);
  return nullptr;
}

}  // namespace tfcompress
