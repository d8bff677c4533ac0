// PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019): what specs call it. low_rank.h has the
// algorithm, which takes matrices; a vector has no factors, and is its own payload.
#include <algorithm>
#include <numeric>

#include "core/linear_codec.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class PowerSgd : public LinearCodec {
 public:
  explicit PowerSgd(const Params& params)
      : settings_{static_cast<int>(params.Int("rank")), params.Choice("warm_start") == 1} {}

  LowRankSettings low_rank() const override { return settings_; }
  bool exact() const override { return true; }
  int64_t PayloadSize(int64_t n) const override { return n; }
  int64_t NumCandidates(int64_t n) const override { return n; }
  int64_t NumKept(int64_t n) const override { return n; }

 protected:
  void EncodeFinite(const JoinedSpan& dense, const CodecContext&,
                    Span<float> payload) const override {
    dense.ForEachPiece(0, dense.size(), [&](int64_t first, Span<const float> piece) {
      std::copy(piece.begin(), piece.end(), payload.data() + first);
    });
  }

  void RecoverFinite(Span<const float> summed, int64_t, const CodecContext&,
                     std::vector<uint32_t>* indices, std::vector<float>* values) const override {
    indices->resize(summed.size());
    std::iota(indices->begin(), indices->end(), 0u);
    values->assign(summed.begin(), summed.end());
  }

 private:
  LowRankSettings settings_;
};

}  // namespace

Definition<LinearCodec> PowerSgdLinear() {
  return {"Low-rank factors of matrices by a step of power iteration (PowerSGD, Algorithm 1).",
          {{"rank", ParamKind::kInt, "4", "rank of the approximation of each matrix", 1, 1024},
           ChoiceParam("warm_start", "1",
                       "1 begins with the right factor of the step before, 0 with a random one",
                       {"0", "1"})},
          Make<PowerSgd>,
          "what is outside of the r directions; vectors are exact",
          "4 r (rows + columns) of a matrix, in two sums; 4 n of a vector"};
}

}  // namespace tfcompress
