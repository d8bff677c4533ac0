#include <cstdint>

#include "cuda/largest_selector.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/select_largest_io.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

absl::Status SelectOnDevice(OpKernelContext* ctx, const SelectInputs& inputs) {
  const auto selector = device::LargestSelector::Make(inputs.values.size(), inputs.count);
  TF_RETURN_IF_ERROR(ToTensorFlow(selector.status()));
  OwnedBuffer workspace;
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, selector.value().workspace_bytes(), &workspace));
  Tensor* positions;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, {static_cast<int64_t>(inputs.count)}, &positions));
  return ToTensorFlow(selector.value().Select(inputs.values.data(), workspace,
                                              positions->flat<int64_t>().data(), StreamOf(ctx)));
}

class DeviceSelectLargestKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    SelectInputs inputs;
    OP_REQUIRES_OK(ctx, ReadSelectInputs(ctx, &inputs));
    OP_REQUIRES_OK(ctx, SelectOnDevice(ctx, inputs));
  }
};

[[maybe_unused]] const bool registered =
    RegisterDeviceKernel<DeviceSelectLargestKernel>("Tfcompress>SelectLargest", {"count"});

}  // namespace
}  // namespace tfcompress
