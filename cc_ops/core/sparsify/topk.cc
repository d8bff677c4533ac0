// topk: the k elements of largest magnitude (Top-r of DeepReduce 1, Top-k of FastSGD 5).

#include "core/registry.h"
#include "core/sparsify/num_selected.h"
#include "core/sparsify/select_largest.h"

namespace tfcompress {
namespace {

class TopK : public Sparsifier {
 public:
  explicit TopK(double ratio) : ratio_(ratio) {}

  Status Select(Span<const float> dense, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    SelectLargest(dense, NumSelected(ratio_, dense.size()), context.executor, indices);
    return OkStatus();
  }

 private:
  double ratio_;
};

std::unique_ptr<const Sparsifier> Make(const Params& params) {
  return std::make_unique<TopK>(params.Float("ratio"));
}

}  // namespace

Definition<Sparsifier> TopKSparsifier() {
  return {"The ratio * n elements of largest magnitude, ties by lower index (Top-r, DeepReduce 1).",
          {RatioParam()},
          Make,
          "leaves out the n - k smallest magnitudes",
          "k = round(ratio n) indices and values"};
}

}  // namespace tfcompress
