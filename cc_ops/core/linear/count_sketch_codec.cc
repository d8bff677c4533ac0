// A Count Sketch of the gradient: Sketched-SGD, Algorithms 1 and 3.
#include <algorithm>

#include "core/linear/recovery.h"
#include "core/linear_codec.h"
#include "core/registry.h"
#include "core/sketch/count_sketch.h"

namespace tfcompress {
namespace {

enum class Recovery { kTop, kHeavyMix };

class CountSketchCodec : public LinearCodec {
 public:
  explicit CountSketchCodec(const Params& params)
      : rows_(static_cast<int>(params.Int("rows"))),
        columns_(static_cast<uint32_t>(params.Int("columns"))),
        k_(params.Int("k")),
        candidates_(params.Int("candidates")),
        recovery_(static_cast<Recovery>(params.Choice("recovery"))) {}

  bool exact() const override { return false; }
  int64_t PayloadSize(int64_t) const override { return int64_t{rows_} * columns_; }
  int64_t NumCandidates(int64_t n) const override {
    return recovery_ == Recovery::kTop ? std::min(n, k_ * candidates_) : NumKept(n);
  }
  int64_t NumKept(int64_t n) const override { return std::min(n, k_); }

 protected:
  void EncodeFinite(const JoinedSpan& dense, const CodecContext& context,
                    Span<float> payload) const override {
    Sketch(context).Insert(dense, context.executor, payload);
  }

  void RecoverFinite(Span<const float> summed, int64_t n, const CodecContext& context,
                     std::vector<uint32_t>* indices, std::vector<float>* values) const override {
    if (recovery_ == Recovery::kHeavyMix) {
      return HeavyMix(Sketch(context), summed, n, k_, context, indices, values);
    }
    TopCandidates(Sketch(context), summed, n, NumCandidates(n), context.executor, indices, values);
  }

 private:
  CountSketch Sketch(const CodecContext& context) const {
    return CountSketch(rows_, columns_, context.seed);
  }

  int rows_;
  uint32_t columns_;
  int64_t k_;
  int64_t candidates_;
  Recovery recovery_;
};

}  // namespace

Definition<LinearCodec> CountSketchLinear() {
  ParamSpec rows{"rows", ParamKind::kInt,
                 "5",    "rows of the table, an odd number: a median decides among them",
                 1,      CountSketch::kMaxRows};
  rows.odd = true;
  return {
      "Count Sketch: a table from which large elements of the sum are recovered (Sketched-SGD "
      "5.1).",
      {rows,
       {"columns", ParamKind::kInt, "1000000", "columns of the table", 1, CountSketch::kMaxColumns},
       {"k", ParamKind::kInt, "100000", "elements applied in a step, at most n", 1, kMaxElements},
       {"candidates", ParamKind::kInt, "36",
        "P: elements recovered for each one applied, where recovery=top", 1, 1000},
       ChoiceParam("recovery", "top",
                   "what is recovered: the candidates k largest estimates (Algorithm 3), or k "
                   "heavy elements filled up at random (HEAVYMIX, Algorithm 1)",
                   {"top", "heavymix"})},
      Make<CountSketchCodec>,
      "leaves out elements whose estimates are small; what is sent is exact after the second "
      "round",
      "4 rows columns summed, then 4 candidates k (4 k with heavymix) summed"};
}

}  // namespace tfcompress
