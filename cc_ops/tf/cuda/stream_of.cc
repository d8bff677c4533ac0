// The only file that needs Eigen's device. The tests replace it.
#include "tf/cuda/device_memory.h"

namespace tfcompress {

cudaStream_t StreamOf(tensorflow::OpKernelContext* ctx) { return ctx->eigen_gpu_device().stream(); }

}  // namespace tfcompress
