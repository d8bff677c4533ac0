#include <vector>

#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/register_device_kernel.h"
#include "tf/cuda/stream_kernel.h"
#include "tf/cuda/sum_packets.h"
#include "tf/decode_sum_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

class DeviceDecodeSumKernel : public StreamKernel {
 public:
  explicit DeviceDecodeSumKernel(OpKernelConstruction* ctx) : StreamKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    SumInputs inputs;
    TF_RETURN_IF_ERROR(ReadSumInputs(ctx, attributes_, &inputs));
    std::vector<SumTarget> targets;
    TF_RETURN_IF_ERROR(AllocateSums(ctx, nullptr, &targets));
    std::vector<DecodeStats> stats(targets.size());
    TF_RETURN_IF_ERROR(SumPackets(ctx, "decoding in '" + name() + "'", inputs.packets,
                                  attributes_.positions, inputs.scale, targets, &stats));
    return OutputStats(ctx, stats);
  }

  SumAttributes attributes_;
};

[[maybe_unused]] const bool registered = RegisterDeviceKernel<DeviceDecodeSumKernel>(
    "Tfcompress>DecodeSum", {"num_ranks", "scale", "shapes", "num_bytes", "nanoseconds", "finite"},
    "packets");

}  // namespace
}  // namespace tfcompress
