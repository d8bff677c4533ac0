// Error feedback: what a step does not send is added to the next gradient.
//
// The residual slot doubles as the compensated vector: Compensate turns residual into
// c = gradient + residual in place, Update takes the decoded values out at the k sent indices. So
// the slot is c - decoded at the end, for a cost of O(k) beyond the addition.
#include "core/finite.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Residual : public Memory {
 public:
  int num_slots() const override { return 1; }

  // Checks before it writes: a non-finite step must leave the residual as it was.
  Span<const float> Compensate(Span<const float> gradient, Span<float* const> slots,
                               const CodecContext& context, bool* finite) const override {
    const float* g = gradient.data();
    float* residual = slots[0];
    const auto n = static_cast<int64_t>(gradient.size());
    *finite = AllFinite(context.executor, n, [=](int64_t i) { return g[i] + residual[i]; });
    if (!*finite) return {};
    ForEachBlock(context.executor, n, [=](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) residual[i] += g[i];
    });
    return {residual, gradient.size()};
  }

  void Update(const SparseTensor& decoded, Span<float* const> slots,
              const CodecContext& context) const override {
    float* residual = slots[0];
    const float* values = decoded.values.data();
    const Support support = decoded.support();
    ForEachBlock(context.executor, support.size(), [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) residual[support[i]] -= values[i];
    });
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
