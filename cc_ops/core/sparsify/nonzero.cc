#include "core/by_magnitude.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Nonzero : public SparsifierByMagnitude {
 public:
  uint32_t LeastMagnitude(int64_t, const ReadElements&) const override {
    return 1;  // Of the smallest subnormal number.
  }
};

}  // namespace

Definition<Sparsifier> NonzeroSparsifier() {
  return {
      "Elements other than zero: gradients that are sparse by nature (DeepReduce 3, SketchML 3.1).",
      {},
      Make<Nonzero>,
      "none, but for the sign of zero",
      "k indices and values"};
}

}  // namespace tfcompress
