// Momentum correction and momentum factor masking (Deep Gradient Compression 3.1 and 3.2;
// Sketched-SGD 5.1, Algorithm 3, lines 5, 6 and 13). The residual accumulates velocities instead of
// gradients, so that an element that is sent late has the momentum that it would have had.
//
//   velocity' = rate velocity + gradient              Nesterov: rate (velocity + gradient)
//   residual' = residual + velocity'                  Nesterov: residual + velocity' + gradient
//
// The residual after the step doubles as the compensated vector, as in `residual`. At the sent
// indices both are cleared: a stale velocity there would overshoot what was just applied. If
// everything is sent, nothing is stale and the velocity stays: plain momentum.
#include <algorithm>

#include "core/finite.h"
#include "core/memory/momentum_step.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Momentum : public Memory {
 public:
  Momentum(float rate, bool nesterov) : rate_(rate), nesterov_(nesterov) {}

  int num_slots() const override { return kNumMomentumSlots; }

  Span<const float> Compensate(Span<const float> gradient, const MemorySlots& slots,
                               const CodecContext& context, bool* finite) const override {
    if (nesterov_) return Accumulate(gradient, slots, context, finite, NesterovMomentum{rate_});
    return Accumulate(gradient, slots, context, finite, PlainMomentum{rate_});
  }

 protected:
  void ForgetSent(const Support& sent, const MemorySlots& slots,
                  const CodecContext& context) const override {
    if (!MasksVelocity(sent.size(), sent.n())) return;
    float* velocity = slots.after[kVelocitySlot];
    ForEachBlock(context.executor, sent.size(), [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) velocity[sent[i]] = 0;
    });
  }

 private:
  // Applies `next` to each element, in one pass. Only the residual is checked: it is not finite if
  // the velocity is not.
  template <typename Next>
  static Span<const float> Accumulate(Span<const float> gradient, const MemorySlots& slots,
                                      const CodecContext& context, bool* finite, const Next& next) {
    const float* g = gradient.data();
    const float* residual = slots.before[kResidualSlot];
    const float* velocity = slots.before[kVelocitySlot];
    float* residual_after = slots.after[kResidualSlot];
    float* velocity_after = slots.after[kVelocitySlot];
    const auto n = static_cast<int64_t>(gradient.size());
    // In place, check before writing, since a non-finite step must leave the slots unchanged.
    if (residual == residual_after || velocity == velocity_after) {
      *finite = AllFinite(context.executor, n, [=](int64_t i) {
        return next(g[i], {residual[i], velocity[i]}).residual;
      });
      if (!*finite) return {};
    }
    *finite = AllFinite(context.executor, n, [=](int64_t i) {
      const MomentumState after = next(g[i], {residual[i], velocity[i]});
      velocity_after[i] = after.velocity;
      return residual_after[i] = after.residual;
    });
    if (*finite) return {residual_after, gradient.size()};
    std::copy(residual, residual + n, residual_after);
    std::copy(velocity, velocity + n, velocity_after);
    return {};
  }

  float rate_;
  bool nesterov_;
};

}  // namespace

Definition<Memory> MomentumMemory() {
  ParamSpec rate{"rate", ParamKind::kFloat, "0.9", "what a step leaves of the velocity"};
  rate.max = 1;
  rate.max_open = true;
  ParamSpec nesterov{"nesterov", ParamKind::kChoice, "0", "1 for Nesterov's momentum"};
  nesterov.choices = {"0", "1"};
  return {
      "momentum correction and factor masking: keeps velocities, not gradients (DGC 3); two "
      "float32 slots of n elements",
      {rate, nesterov},
      [](const Params& params) -> std::unique_ptr<const Memory> {
        return std::make_unique<Momentum>(static_cast<float>(params.Float("rate")),
                                          params.Choice("nesterov") == 1);
      },
      "none: what is not sent stays pending",
      "none; 8 n bytes of memory on each rank"};
}

}  // namespace tfcompress
