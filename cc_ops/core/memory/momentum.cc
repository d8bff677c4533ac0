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
#include "core/float_filter.h"
#include "core/memory/momentum_step.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Momentum : public Memory {
 public:
  explicit Momentum(const Params& params)
      : rate_(static_cast<float>(params.Float("rate"))),
        nesterov_(params.Choice("nesterov") == 1) {}

  int num_slots() const override { return kNumMomentumSlots; }

 private:
  void ForgetSent(const Support& sent, const MemorySlots& slots,
                  const CodecContext& context) const override {
    if (!MasksVelocity(sent.size(), sent.n())) return;
    float* velocity = slots.after[kVelocitySlot];
    ForEachBlock(context.executor, sent.size(), [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) velocity[sent[i]] = 0;
    });
  }

  bool CompensateChunk(const float* gradient, const float* const* before, float* const* after,
                       int64_t count, uint32_t first, FloatList* list) const override {
    const auto accumulate = [=](auto next) {
      // The velocity is finite where the residual is.
      const auto make = [=, residual = before[kResidualSlot], velocity = before[kVelocitySlot],
                         residual_after = after[kResidualSlot],
                         velocity_after = after[kVelocitySlot]](int64_t i) {
        const MomentumState state = next(gradient[i], {residual[i], velocity[i]});
        velocity_after[i] = state.velocity;
        return residual_after[i] = state.residual;
      };
      return MakeElements(make, after[kResidualSlot], count, first, list);
    };
    return nesterov_ ? accumulate(NesterovMomentum{rate_}) : accumulate(PlainMomentum{rate_});
  }

  float rate_;
  bool nesterov_;
};

}  // namespace

Definition<Memory> MomentumMemory() {
  ParamSpec rate{"rate", ParamKind::kFloat, "0.9", "what a step leaves of the velocity"};
  rate.max = 1;
  rate.max_open = true;
  return {
      "momentum correction and factor masking: keeps velocities, not gradients (DGC 3); two "
      "float32 slots of n elements",
      {rate, ChoiceParam("nesterov", "0", "1 for Nesterov's momentum", {"0", "1"})},
      Make<Momentum>,
      "none: what is not sent stays pending",
      "none; 8 n bytes of memory on each rank"};
}

}  // namespace tfcompress
