#include "cuda/compensator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compensate_io.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/device_slots.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status CompensateOnDevice(OpKernelContext* ctx, const CompensateInputs& inputs) {
  const GradientView& gradient = inputs.gradient;
  const auto compensator =
      device::Compensator::Make(inputs.memory.part, gradient.dtype, gradient.n);
  TF_RETURN_IF_ERROR(ToTensorFlow(compensator.status()));
  OwnedBuffer workspace;
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, compensator.value().workspace_bytes(), &workspace));
  Tensor* finite;
  TF_RETURN_IF_ERROR(ctx->allocate_output(inputs.finite_output(), {}, &finite));
  return ToTensorFlow(compensator.value().Compensate(gradient.data, OnDevice(inputs.slots),
                                                     workspace, finite->scalar<bool>().data(),
                                                     StreamOf(ctx)));
}

class DeviceCompensateKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    CompensateInputs inputs;
    OP_REQUIRES_OK(ctx, ReadCompensateInputs(ctx, &memories_, GradientBuffer::kKeep, &inputs));
    OP_REQUIRES_OK(ctx, CompensateOnDevice(ctx, inputs));
  }

 private:
  MemoryCache memories_;
};

// `finite` stays on the device, so that this kernel does not wait for the stream: TensorFlow copies
// it when the graph branches on it.
[[maybe_unused]] const bool registered =
    RegisterDeviceKernel<DeviceCompensateKernel>("Tfcompress>Compensate", {"spec"});

}  // namespace
}  // namespace tfcompress
