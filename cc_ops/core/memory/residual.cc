// residual: error feedback; what a step does not send is added to the next gradient.
//
// The slot after the step doubles as the compensated vector: Compensate writes
// c = gradient + residual there, Update subtracts the decoded values at the k sent indices. The
// slot is then c - decoded, at a cost of O(k) in addition to the sum.
#include <algorithm>

#include "core/finite.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Residual : public Memory {
 public:
  int num_slots() const override { return 1; }

  Span<const float> Compensate(Span<const float> gradient, const MemorySlots& slots,
                               const CodecContext& context, bool* finite) const override {
    const float* g = gradient.data();
    const float* before = slots.before[0];
    float* after = slots.after[0];
    const auto n = static_cast<int64_t>(gradient.size());
    // In place, check before writing, since a non-finite step must leave the residual unchanged.
    if (before == after) {
      *finite = AllFinite(context.executor, n, [=](int64_t i) { return g[i] + before[i]; });
      if (!*finite) return {};
    }
    *finite =
        AllFinite(context.executor, n, [=](int64_t i) { return after[i] = g[i] + before[i]; });
    if (*finite) return {after, gradient.size()};
    std::copy(before, before + n, after);
    return {};
  }
};

}  // namespace

Definition<Memory> ResidualMemory() {
  return {
      "error feedback: adds what was not sent to the next gradient; one float32 slot of n elements",
      {},
      [](const Params&) -> std::unique_ptr<const Memory> { return std::make_unique<Residual>(); },
      "none: what is not sent stays pending",
      "none; 4 n bytes of memory on each rank"};
}

}  // namespace tfcompress
