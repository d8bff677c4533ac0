// randomk: k random elements (Random-r of DeepReduce 2). The frame's seed implies them, so no index
// is sent.

#include "core/registry.h"
#include "core/seeded_support.h"
#include "core/sparsify/num_selected.h"

namespace tfcompress {
namespace {

class RandomK : public Sparsifier {
 public:
  explicit RandomK(const Params& params) : ratio_(params.Float("ratio")) {}

  Implied implied() const override { return Implied::kSeeded; }

  Status Select(Span<const float> dense, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    const size_t n = dense.size();
    if (n == 0) return indices->clear(), OkStatus();
    *indices =
        SeededSupport(static_cast<uint32_t>(n), static_cast<uint32_t>(NumSelected(ratio_, n)),
                      context.seed, context.executor);
    return OkStatus();
  }

 private:
  double ratio_;
};

}  // namespace

Definition<Sparsifier> RandomKSparsifier() {
  return {"ratio * n elements at random, without indices on the wire (Random-r, DeepReduce 2).",
          {RatioParam()},
          Make<RandomK>,
          "leaves out n - k elements at random",
          "k = round(ratio n) values, no index"};
}

}  // namespace tfcompress
