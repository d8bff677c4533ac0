#include <numeric>

#include "core/registry.h"

namespace tfcompress {
namespace {

class Dense : public Sparsifier {
 public:
  Implied implied() const override { return Implied::kEverything; }

  Status Select(Span<const float> dense, const CodecContext&,
                std::vector<uint32_t>* indices) const override {
    indices->resize(dense.size());
    std::iota(indices->begin(), indices->end(), 0u);
    return OkStatus();
  }
};

}  // namespace

Definition<Sparsifier> DenseSparsifier() {
  return {"Every element; no index is sent.", {}, Make<Dense>, "none", "n values, no index"};
}

}  // namespace tfcompress
