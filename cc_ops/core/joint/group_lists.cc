#include "core/joint/group_lists.h"

#include <algorithm>
#include <numeric>

#include "core/float_filter.h"
#include "core/float_order.h"
#include "core/huge_pages.h"
#include "core/sketch/quantile_sketch.h"

namespace tfcompress {
namespace {

// Group and offset of a bucket, in a table, since dividing by the width is slow.
struct Target {
  uint16_t group;
  uint16_t offset;
};

std::vector<Target> TargetsOf(const BucketGroups& grouping) {
  std::vector<Target> targets(grouping.num_buckets);
  for (uint32_t bucket = 0; bucket < grouping.num_buckets; ++bucket) {
    const uint32_t group = bucket / grouping.width;
    targets[bucket] = {static_cast<uint16_t>(group),
                       static_cast<uint16_t>(bucket - grouping.FirstBucket(group))};
  }
  return targets;
}

float Magnitude(float value) { return FloatFromBits(MagnitudeBits(value)); }

// The magnitudes that QuantileSketch would sample of all those of a sign.
std::vector<float> SampleMagnitudes(Span<const float> values, const SignRanks& ranks,
                                    uint32_t sign) {
  const size_t count = ranks.Count(sign);
  const bool is_sampled = count > QuantileSketch::kMaxSample;
  const auto rank_of = [=](uint64_t i) {
    return is_sampled ? QuantileSketch::SamplePosition(i, count) : i;
  };
  std::vector<float> sample;
  for (const uint32_t position :
       ranks.Positions(sign, std::min(count, QuantileSketch::kMaxSample), rank_of))
    sample.push_back(Magnitude(values[position]));
  return sample;
}

}  // namespace

struct GroupLists::Source {
  const Support& support;
  Span<const float> values;
  uint32_t sign;
  const BucketQuantizer& quantizer;
  Span<const Target> targets;
};

GroupLists::GroupLists(const Support& support, Span<const float> values, const SignRanks& ranks,
                       uint32_t sign, const GroupedSketchConfig& config, Executor* executor)
    : grouping_(0, config.groups) {
  const size_t count = ranks.Count(sign);
  if (count == 0) return;
  const BucketQuantizer quantizer(SampleMagnitudes(values, ranks, sign), config.buckets, executor);
  grouping_ = BucketGroups(static_cast<uint32_t>(quantizer.num_buckets()), config.groups);
  const std::vector<Target> targets = TargetsOf(grouping_);
  const Source source = {support, values, sign, quantizer, targets};
  keys_.reset(new uint32_t[count]);
  offsets_.reset(new uint16_t[count]);
  PreferHugePages(keys_.get(), count * sizeof(uint32_t));
  PreferHugePages(offsets_.get(), count * sizeof(uint16_t));
  block_elements_ = static_cast<int64_t>(BucketBlockElements(quantizer.num_buckets()));
  const std::vector<uint32_t> positions = ranks.Positions(
      sign, NumBlocks(count, block_elements_), [&](uint64_t i) { return i * block_elements_; });
  begins_.resize(positions.size() * grouping_.num_groups + 1);
  begins_.back() = static_cast<uint32_t>(count);
  std::vector<BucketSums> sums(positions.size(), BucketSums(0));
  const auto list = [&](int64_t block, int64_t begin, int64_t end) {
    sums[block] = ListBlock(source, positions[block], begin, end);
  };
  ForEachBlock(executor, count, list, block_elements_);
  means_ = MeansOf(sums);
}

BucketSums GroupLists::ListBlock(const Source& source, size_t position, int64_t begin,
                                 int64_t end) {
  constexpr int64_t kChunk = BucketQuantizer::kChunk;
  BucketSums sums(grouping_.num_buckets);
  const int64_t size = end - begin;
  const std::unique_ptr<uint32_t[]> keys(new uint32_t[size + kChunk]);
  const std::unique_ptr<uint16_t[]> buckets(new uint16_t[size]);
  float magnitudes[kChunk];
  uint32_t codes[kChunk];
  const FloatFilter filter = FloatFilter::OfSign(source.sign);
  for (int64_t listed = 0; listed < size; position += kChunk) {
    const auto rest = static_cast<int64_t>(source.values.size() - position);
    uint32_t* const found = keys.get() + listed;
    FloatList list{filter, found, magnitudes};
    ListThose(source.values.data() + position, std::min(kChunk, rest),
              static_cast<uint32_t>(position), &list);
    const int64_t count = std::min(list.count, size - listed);
    for (int64_t i = 0; i < count; ++i) magnitudes[i] = Magnitude(magnitudes[i]);
    if (!source.support.everything()) {
      for (int64_t i = 0; i < count; ++i) found[i] = source.support.indices()[found[i]];
    }
    source.quantizer.Find(magnitudes, count, codes);
    sums.Add(magnitudes, codes, count);
    std::copy_n(codes, count, buckets.get() + listed);
    listed += count;
  }

  uint32_t next[kMaxSketchGroups];
  auto first = static_cast<uint32_t>(begin);
  for (uint32_t group = 0; group < grouping_.num_groups; ++group) {
    next[group] = begins_[begin / block_elements_ * grouping_.num_groups + group] = first;
    const auto counts = sums.counts.begin() + grouping_.FirstBucket(group);
    first = std::accumulate(counts, counts + grouping_.Width(group), first);
  }
  const Target* const targets = source.targets.data();
  uint32_t* const group_keys = keys_.get();
  uint16_t* const group_offsets = offsets_.get();
  for (int64_t i = 0; i < size; ++i) {
    const Target target = targets[buckets[i]];
    const uint32_t slot = next[target.group]++;
    group_keys[slot] = keys[i];
    group_offsets[slot] = target.offset;
  }
  return sums;
}

GroupElements GroupLists::Elements(uint32_t group) const {
  const auto for_each_part = [&](const auto& use) {
    for (size_t i = group; i + 1 < begins_.size(); i += grouping_.num_groups)
      use(begins_[i], begins_[i + 1]);
  };
  size_t size = 0;
  for_each_part([&](uint32_t begin, uint32_t end) { size += end - begin; });
  GroupElements elements;
  elements.keys.reserve(size);
  elements.offsets.reserve(size);
  for_each_part([&](uint32_t begin, uint32_t end) {
    elements.keys.insert(elements.keys.end(), keys_.get() + begin, keys_.get() + end);
    elements.offsets.insert(elements.offsets.end(), offsets_.get() + begin, offsets_.get() + end);
  });
  return elements;
}

}  // namespace tfcompress
