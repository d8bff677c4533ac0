// shared_randomk: k random elements, the same on all ranks (Random-r of DeepReduce 2 with a shared
// seed), so that an all-reduce can sum the values.
#include "core/linear_codec.h"
#include "core/registry.h"
#include "core/seeded_support.h"
#include "core/sparsify/num_selected.h"

namespace tfcompress {
namespace {

class SharedRandomK : public LinearCodec {
 public:
  explicit SharedRandomK(const Params& params) : ratio_(params.Float("ratio")) {}

  bool exact() const override { return true; }
  int64_t PayloadSize(int64_t n) const override { return NumKept(n); }
  int64_t NumCandidates(int64_t n) const override { return NumKept(n); }
  int64_t NumKept(int64_t n) const override {
    return static_cast<int64_t>(NumSelected(ratio_, static_cast<size_t>(n)));
  }

 protected:
  void EncodeFinite(const JoinedSpan& dense, const CodecContext& context,
                    Span<float> payload) const override {
    const std::vector<uint32_t> indices = SupportOf(dense.size(), context);
    ForEachBlock(context.executor, static_cast<int64_t>(indices.size()),
                 [&](int64_t, int64_t begin, int64_t end) {
                   int64_t i = begin;
                   const auto gather = [&](int64_t first, Span<const float> piece) {
                     const int64_t piece_end = first + static_cast<int64_t>(piece.size());
                     for (; i < end && indices[i] < piece_end; ++i) {
                       payload.data()[i] = piece.data()[indices[i] - first];
                     }
                   };
                   dense.ForEachPiece(indices[begin], int64_t{indices[end - 1]} + 1, gather);
                 });
  }

  void RecoverFinite(Span<const float> summed, int64_t n, const CodecContext& context,
                     std::vector<uint32_t>* indices, std::vector<float>* values) const override {
    *indices = SupportOf(n, context);
    values->assign(summed.begin(), summed.end());
  }

 private:
  std::vector<uint32_t> SupportOf(int64_t n, const CodecContext& context) const {
    if (n == 0) return {};
    return SeededSupport(static_cast<uint32_t>(n), static_cast<uint32_t>(NumKept(n)), context.seed,
                         context.executor);
  }

  double ratio_;
};

}  // namespace

Definition<LinearCodec> SharedRandomKLinear() {
  return {"ratio * n elements at random, the same on all ranks (Random-r, DeepReduce 2).",
          {RatioParam()},
          Make<SharedRandomK>,
          "leaves out n - k elements at random",
          "4 k, k = round(ratio n), summed"};
}

}  // namespace tfcompress
