#include <memory>
#include <utility>

#include "core/frame.h"
#include "core/pipeline.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/encode_io.h"
#include "tf/frame_pool.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;

class EncodeKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    EncodeInputs inputs;
    OP_REQUIRES_OK(
        ctx, ReadEncodeInputs(ctx, &compressors_, GradientBuffer::kBecomesFirstSlot, &inputs));
    PoolExecutor executor(ctx);
    const CodecContext context{inputs.seed, &executor, inputs.grid};
    Bytes frame = frames_->Take();
    const Stopwatch stopwatch;
    OP_REQUIRES_OK(ctx, ToTensorFlow(EncodeFrame(*inputs.compressor, inputs.gradient,
                                                 inputs.slots.slots(), context, &frame)));
    const int64_t nanoseconds = stopwatch.nanoseconds();
    int64_t num_sent = 0;
    OP_REQUIRES_OK(ctx, ToTensorFlow(CountSent(frame, &num_sent)));
    FramePool::Output(frames_, ctx, std::move(frame));
    OP_REQUIRES_OK(ctx, OutputFrameCounts(ctx, num_sent, nanoseconds));
  }

 private:
  CompressorCache compressors_;
  const std::shared_ptr<FramePool> frames_ = FramePool::Make();
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Encode").Device(tensorflow::DEVICE_CPU), EncodeKernel);

}  // namespace
}  // namespace tfcompress
