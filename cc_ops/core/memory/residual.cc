// residual: error feedback; what a step does not send is added to the next gradient.
//
// The slot after the step doubles as the compensated vector: Compensate writes
// c = gradient + residual there, Update subtracts the decoded values at the k sent indices. The
// slot is then c - decoded, at a cost of O(k) in addition to the sum.
#include "core/registry.h"

namespace tfcompress {
namespace {

class Residual : public Memory {
 public:
  int num_slots() const override { return 1; }

 private:
  bool CompensateChunk(const float* gradient, const float* const* before, float* const* after,
                       int64_t count, uint32_t first, FloatList* list) const override {
    return AddChunk(gradient, before, after, count, first, list);
  }
};

}  // namespace

Definition<Memory> ResidualMemory() {
  return {
      "error feedback: adds what was not sent to the next gradient; one float32 slot of n elements",
      {},
      Make<Residual>,
      "none: what is not sent stays pending",
      "none; 4 n bytes of memory on each rank"};
}

}  // namespace tfcompress
