#include <memory>
#include <vector>

#include "core/dtype.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"
#include "tf/pool_executor.h"
#include "tf/slot_vectors.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class CompensateKernel : public tensorflow::OpKernel {
 public:
  explicit CompensateKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& gradient = ctx->input(0);
    tensorflow::tstring spec;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "spec", &spec));
    std::shared_ptr<const Memory> owned;
    OP_REQUIRES_OK(ctx, FindMemory(spec, &owned));
    const Memory& memory = *owned;
    SlotVectors slots;
    OP_REQUIRES_OK(ctx, AllocateSlots(ctx, memory, spec, gradient, 0, &slots));

    PoolExecutor executor(ctx);
    std::vector<float> widened;
    const Span<const float> given =
        ViewAsFloat(gradient.data(), ToDType(gradient.dtype()),
                    static_cast<uint64_t>(gradient.NumElements()), &executor, &widened);
    bool finite = true;
    memory.Compensate(given, slots.slots(), {0, &executor}, &finite);
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, memory.num_slots(), finite));
  }

 private:
  // The memory of a spec of either kind; shares ownership with what has parsed it.
  absl::Status FindMemory(const std::string& spec, std::shared_ptr<const Memory>* memory) {
    return IsLinearSpec(spec) ? FindIn(&linear_, spec, memory) : FindIn(&framed_, spec, memory);
  }

  template <typename Parsed>
  static absl::Status FindIn(SpecCache<Parsed>* cache, const std::string& spec,
                             std::shared_ptr<const Memory>* memory) {
    std::shared_ptr<const Parsed> compressor;
    TF_RETURN_IF_ERROR(cache->Get(spec, &compressor));
    *memory = std::shared_ptr<const Memory>(compressor, &compressor->memory());
    return absl::OkStatus();
  }

  LinearCompressorCache linear_;
  CompressorCache framed_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>Compensate").Device(tensorflow::DEVICE_CPU),
                        CompensateKernel);

}  // namespace
}  // namespace tfcompress
