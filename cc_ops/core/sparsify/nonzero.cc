#include "core/registry.h"
#include "core/sparsify/collect.h"

namespace tfcompress {
namespace {

class Nonzero : public Sparsifier {
 public:
  Status Select(Span<const float> dense, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    constexpr uint32_t kSmallestDenormal = 1;
    CollectAtLeast(dense, kSmallestDenormal, context.executor, indices);
    return OkStatus();
  }
};

std::unique_ptr<const Sparsifier> Make(const Params&) { return std::make_unique<Nonzero>(); }

}  // namespace

Definition<Sparsifier> NonzeroSparsifier() {
  return {
      "Elements other than zero: gradients that are sparse by nature (DeepReduce 3, SketchML 3.1).",
      {},
      Make,
      "none, but for the sign of zero",
      "k indices and values"};
}

}  // namespace tfcompress
