#include <limits>

#include "core/by_magnitude.h"
#include "core/float_order.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Threshold : public SparsifierByMagnitude {
 public:
  explicit Threshold(const Params& params)
      : min_magnitude_(MagnitudeBits(static_cast<float>(params.Float("tau")))) {}

  uint32_t LeastMagnitude(int64_t, const ReadElements&) const override { return min_magnitude_; }

 private:
  uint32_t min_magnitude_;
};

}  // namespace

Definition<Sparsifier> ThresholdSparsifier() {
  ParamSpec tau{"tau", ParamKind::kFloat, "0.01", "smallest |x| that is sent, as a float"};
  tau.min = std::numeric_limits<float>::denorm_min();
  tau.max = std::numeric_limits<float>::max();
  return {"Elements with |x| >= tau (threshold based truncation, SketchML 1.1).",
          {tau},
          Make<Threshold>,
          "leaves out magnitudes below tau",
          "k indices and values, k by the data"};
}

}  // namespace tfcompress
