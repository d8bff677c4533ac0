#include <limits>

#include "core/registry.h"
#include "core/sparsify/collect.h"

namespace tfcompress {
namespace {

class Threshold : public Sparsifier {
 public:
  explicit Threshold(float tau) : min_magnitude_(MagnitudeBits(tau)) {}

  Status Select(Span<const float> dense, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    CollectAtLeast(dense, min_magnitude_, context.executor, indices);
    return OkStatus();
  }

 private:
  uint32_t min_magnitude_;
};

std::unique_ptr<const Sparsifier> Make(const Params& params) {
  return std::make_unique<Threshold>(static_cast<float>(params.Float("tau")));
}

}  // namespace

Definition<Sparsifier> ThresholdSparsifier() {
  ParamSpec tau{"tau", ParamKind::kFloat, "0.01", "smallest |x| that is sent, as a float"};
  tau.min = std::numeric_limits<float>::denorm_min();
  tau.max = std::numeric_limits<float>::max();
  return {"Elements with |x| >= tau (threshold based truncation, SketchML 1.1).",
          {tau},
          Make,
          "leaves out magnitudes below tau",
          "k indices and values, k by the data"};
}

}  // namespace tfcompress
