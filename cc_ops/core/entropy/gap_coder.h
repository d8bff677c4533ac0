// Gaps between the chosen ones of some elements, by adaptive models: where all elements are as
// likely, gaps are geometrically distributed, and their scale says all. FORMAT.md, `rowcol`.
#ifndef TFCOMPRESS_CORE_ENTROPY_GAP_CODER_H_
#define TFCOMPRESS_CORE_ENTROPY_GAP_CODER_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "core/entropy/adaptive_model.h"
#include "core/entropy/rans.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// The average distance of chosen elements, 2^(half / 2).
struct GapScale {
  static constexpr int kBits = 6;
  static constexpr int kMaxHalf = (1 << kBits) - 2;
  static constexpr int kNumModels = 6;

  int half = 0;

  static GapScale Of(uint64_t num_elements, uint64_t num_chosen) {
    const double distance = static_cast<double>(num_elements) / static_cast<double>(num_chosen);
    constexpr double kSqrt2 = 1.4142135623730951;
    GapScale scale;
    while (scale.half < kMaxHalf && distance * distance > std::ldexp(kSqrt2, scale.half))
      ++scale.half;
    return scale;
  }
  // A gap travels as gap >> shift, by a model, and the bits below. Its step is a fourth of the
  // distance or less: within a step, all gaps are about as likely.
  int shift() const { return half < kNumModels ? 0 : half / 2 - 2; }
  // Scales that differ in the shift alone share a model.
  int model() const { return half - 2 * shift(); }
};

// Codes groups of elements one after the other, with models that they share.
class GapCoder {
 public:
  GapCoder() {
    // An element is not chosen with probability 1 - 2^(-model / 2), in 1/256.
    constexpr uint32_t kRatios[GapScale::kNumModels] = {20, 75, 128, 165, 192, 211};
    constexpr uint32_t kWeight = 16;
    for (int i = 0; i < GapScale::kNumModels; ++i)
      models_[i] = NibbleModel::Geometric(kRatios[i], kWeight);
  }

  // Codes the gaps between chosen elements, which are some of `size` > 0. The expected scale is
  // that of the group before, whose gaps are twice as long.
  void Put(uint64_t size, Span<const uint32_t> gaps, RansEncoder* coder) {
    if (gaps.empty()) return PutScale(kNoElements, coder);
    const GapScale scale = GapScale::Of(size, gaps.size());
    PutScale(scale.half, coder);
    RansEncoder local = *coder;  // Which a compiler keeps in registers.
    uint64_t next = 0;
    for (const uint32_t gap : gaps) {
      PutGap(gap, scale, &local);
      next += uint64_t{gap} + 1;
    }
    // The shortest gap that leaves the group.
    const uint64_t step = uint64_t{1} << scale.shift();
    if (next < size) PutGap((size - next + step - 1) / step * step, scale, &local);
    *coder = local;
  }

  // Fills the front of `chosen` with the positions of the chosen elements of a group, ascending,
  // and says how many there are. Fails where there are more, or gaps of more symbols than an
  // encoder writes.
  Status Get(uint64_t size, RansDecoder* coder, Span<uint32_t> chosen, size_t* num_chosen) {
    *num_chosen = 0;
    const int half = GetScale(coder);
    if (half == kNoElements) return OkStatus();
    const GapScale scale{half};
    RansDecoder local = *coder;  // Which a compiler keeps in registers.
    uint64_t num_escapes = chosen.size() + 1;
    size_t i = 0;
    for (uint64_t position = 0; position < size; ++position) {
      position += GetGap(scale, &local, &num_escapes);
      if (num_escapes == 0) return DataLoss("a gap that no encoder writes");
      if (position >= size) break;
      if (i == chosen.size()) return DataLoss("more gaps than indices");
      chosen[i++] = static_cast<uint32_t>(position);
    }
    *coder = local;
    *num_chosen = i;
    return OkStatus();
  }

 private:
  static constexpr int kNoElements = -1;
  static constexpr int kMaxDifference = 7;

  void PutScale(int half, RansEncoder* coder) {
    const int difference = half - expected_half_;
    if (half != kNoElements && std::abs(difference) <= kMaxDifference) {
      coder->Put(difference + kMaxDifference, &scales_);
    } else {
      coder->Put(NibbleModel::kLast, &scales_);
      coder->PutBits(static_cast<uint32_t>(half + 1), GapScale::kBits);
    }
    if (half != kNoElements) expected_half_ = half - 2;
  }
  int GetScale(RansDecoder* coder) {
    const int symbol = coder->Get(&scales_);
    const int half = symbol == NibbleModel::kLast
                         ? static_cast<int>(coder->GetBits(GapScale::kBits)) - 1
                         : symbol - kMaxDifference + expected_half_;
    if (half < 0) return kNoElements;
    expected_half_ = std::min(half, GapScale::kMaxHalf) - 2;
    return expected_half_ + 2;
  }

  void PutGap(uint64_t gap, GapScale scale, RansEncoder* coder) {
    NibbleModel* model = &models_[scale.model()];
    const int shift = scale.shift();
    uint64_t high = gap >> shift;
    for (; high >= NibbleModel::kLast; high -= NibbleModel::kLast)
      coder->Put(NibbleModel::kLast, model);
    coder->Put(static_cast<int>(high), model);
    coder->PutBits(static_cast<uint32_t>(gap & ((uint64_t{1} << shift) - 1)), shift);
  }
  uint64_t GetGap(GapScale scale, RansDecoder* coder, uint64_t* num_escapes) {
    NibbleModel* model = &models_[scale.model()];
    uint64_t high = 0;
    int symbol = coder->Get(model);
    for (; symbol == NibbleModel::kLast && *num_escapes > 0; --*num_escapes) {
      high += NibbleModel::kLast;
      symbol = coder->Get(model);
    }
    // So long a gap leaves any group.
    constexpr uint64_t kMost = uint64_t{1} << 33;
    const int shift = scale.shift();
    return std::min(high + symbol, kMost) << shift | coder->GetBits(shift);
  }

  std::array<NibbleModel, GapScale::kNumModels> models_;
  NibbleModel scales_;
  int expected_half_ = 12;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_GAP_CODER_H_
