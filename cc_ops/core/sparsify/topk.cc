// topk: the k elements of largest magnitude (Top-r of DeepReduce 1, Top-k of FastSGD 5).

#include "core/by_magnitude.h"
#include "core/registry.h"
#include "core/sparsify/num_selected.h"
#include "core/sparsify/select_largest.h"

namespace tfcompress {
namespace {

class TopK : public SparsifierByMagnitude {
 public:
  explicit TopK(const Params& params) : ratio_(params.Float("ratio")) {}

  uint32_t LeastMagnitude(int64_t n, const ReadElements& read) const override {
    return LeastOfLargest(n, static_cast<int64_t>(NumSelected(ratio_, n)), read);
  }
  size_t MostChosen(size_t n) const override { return NumSelected(ratio_, n); }
  void Choose(Span<const float> dense, uint32_t least_magnitude, Executor* executor,
              Candidates* candidates) const override {
    KeepLargest(dense, MostChosen(dense.size()), least_magnitude, executor, candidates);
  }

 private:
  double ratio_;
};

}  // namespace

Definition<Sparsifier> TopKSparsifier() {
  return {"The ratio * n elements of largest magnitude, ties by lower index (Top-r, DeepReduce 1).",
          {RatioParam()},
          Make<TopK>,
          "leaves out the n - k smallest magnitudes",
          "k = round(ratio n) indices and values"};
}

}  // namespace tfcompress
