// The one file that needs Eigen's device; the tests have another one.
#include "tf/cuda/device_memory.h"

namespace tfcompress {

cudaStream_t StreamOf(tensorflow::OpKernelContext* ctx) { return ctx->eigen_gpu_device().stream(); }

}  // namespace tfcompress
