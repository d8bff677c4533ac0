#include "core/float_filter.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class None : public Memory {
 public:
  int num_slots() const override { return 0; }

 private:
  bool CompensateChunk(const float* gradient, const float* const*, float* const*, int64_t count,
                       uint32_t first, FloatList* list) const override {
    return MakeElements([=](int64_t i) { return gradient[i]; }, gradient, count, first, list);
  }
};

}  // namespace

Definition<Memory> NoneMemory() {
  return {"forgets what is not sent", {}, Make<None>, "loses what is not sent", "none"};
}

}  // namespace tfcompress
