#include "tf/compensate_io.h"

#include "core/spec.h"
#include "tf/dtype_conversion.h"
#include "tf/kernel_io.h"

namespace tfcompress {
namespace {

template <typename Parsed>
absl::Status GetFrom(SpecCache<Parsed>* cache, const std::string& spec, MemoryOfSpec* memory) {
  std::shared_ptr<const Parsed> compressor;
  TF_RETURN_IF_ERROR(cache->Get(spec, &compressor));
  memory->part = PartsOf(compressor->spec(), Parsed::kMaxParts)[0];
  memory->memory = std::shared_ptr<const Memory>(compressor, &compressor->memory());
  return absl::OkStatus();
}

}  // namespace

absl::Status MemoryCache::Get(const std::string& spec, MemoryOfSpec* memory) {
  return IsLinearSpec(spec) ? GetFrom(&linear_, spec, memory) : GetFrom(&framed_, spec, memory);
}

absl::Status ReadCompensateInputs(tensorflow::OpKernelContext* ctx, MemoryCache* memories,
                                  GradientBuffer gradient_buffer, CompensateInputs* inputs) {
  const tensorflow::Tensor& gradient = ctx->input(0);
  tensorflow::tstring spec;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "spec", &spec));
  TF_RETURN_IF_ERROR(memories->Get(spec, &inputs->memory));
  TF_RETURN_IF_ERROR(
      AllocateSlots(ctx, *inputs->memory.memory, spec, gradient_buffer, 0, &inputs->slots));
  inputs->gradient = {gradient.data(), ToDType(gradient.dtype()),
                      static_cast<uint64_t>(gradient.NumElements())};
  return absl::OkStatus();
}

}  // namespace tfcompress
