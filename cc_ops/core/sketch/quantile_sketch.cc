#include "core/sketch/quantile_sketch.h"

#include <algorithm>

#include "core/float_order.h"
#include "core/radix_sort.h"

namespace tfcompress {
namespace {

std::vector<uint32_t> AllKeys(Span<const float> values) {
  std::vector<uint32_t> keys(values.size());
  std::transform(values.begin(), values.end(), keys.begin(), OrderedKey);
  return keys;
}

std::vector<uint32_t> SampleKeys(Span<const float> values) {
  std::vector<uint32_t> keys(QuantileSketch::kMaxSample);
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = OrderedKey(values[QuantileSketch::SamplePosition(i, values.size())]);
  return keys;
}

}  // namespace

QuantileSketch::QuantileSketch(Span<const float> values, Executor* executor)
    : sorted_keys_(values.size() <= kMaxSample ? AllKeys(values) : SampleKeys(values)) {
  RadixSort(0, 32, executor, &sorted_keys_);
  size_t num_steps = 0;
  for (size_t i = 1; i < sorted_keys_.size(); ++i) {
    num_steps += sorted_keys_[i] != sorted_keys_[i - 1];
  }
  num_distinct_ = sorted_keys_.empty() ? 0 : num_steps + 1;
}

std::vector<uint32_t> QuantileSketch::Splits(size_t num_parts) const {
  std::vector<uint32_t> splits;
  if (sorted_keys_.empty()) return splits;
  auto append_if_new = [&](uint32_t key) {
    if (key > (splits.empty() ? sorted_keys_.front() : splits.back())) splits.push_back(key);
  };
  if (num_distinct_ <= num_parts) {
    for (uint32_t key : sorted_keys_) append_if_new(key);
  } else {
    for (size_t part = 1; part < num_parts; ++part) {
      const auto quantile = sorted_keys_.begin() + sorted_keys_.size() * part / num_parts;
      const uint32_t last = splits.empty() ? sorted_keys_.front() : splits.back();
      // A value that fills a part is a bucket of its own: following values must not share its mean.
      const auto next =
          *quantile == last ? std::upper_bound(quantile, sorted_keys_.end(), last) : quantile;
      if (next != sorted_keys_.end()) append_if_new(*next);
    }
  }
  return splits;
}

}  // namespace tfcompress
