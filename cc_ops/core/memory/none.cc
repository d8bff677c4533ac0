#include "core/finite.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class None : public Memory {
 public:
  int num_slots() const override { return 0; }

 private:
  bool CompensateChunk(const float* gradient, const float* const*, float* const*,
                       int64_t count) const override {
    return AllFinite(gradient, count);
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
