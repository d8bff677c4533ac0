#include "core/finite.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class None : public Memory {
 public:
  int num_slots() const override { return 0; }
  Span<const float> Compensate(Span<const float> gradient, const MemorySlots&,
                               const CodecContext& context, bool* finite) const override {
    *finite = AllFinite(context.executor, gradient.size(),
                        [g = gradient.data()](int64_t i) { return g[i]; });
    return *finite ? gradient : Span<const float>();
  }
};

}  // namespace

Definition<Memory> NoneMemory() {
  return {"forgets what is not sent",
          {},
          [](const Params&) -> std::unique_ptr<const Memory> { return std::make_unique<None>(); },
          "loses what is not sent",
          "none"};
}

}  // namespace tfcompress
