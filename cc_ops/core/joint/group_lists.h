// The elements of a support, prepared for a grouped sketch (SketchML 3.2 and 3.3): separated by
// sign, put into quantile buckets by magnitude, and listed for each group of buckets.
#ifndef TFCOMPRESS_CORE_JOINT_GROUP_LISTS_H_
#define TFCOMPRESS_CORE_JOINT_GROUP_LISTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/codec.h"
#include "core/float_order.h"
#include "core/joint/bucket_groups.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/sign_ranks.h"
#include "core/span.h"

namespace tfcompress {

// The elements of one group.
struct GroupElements {
  std::vector<uint32_t> keys;     // Ascending.
  std::vector<uint16_t> offsets;  // Their buckets, counted from the first one of the group.
};

// The lists of one sign. Blocks of elements of the sign are listed one after another, each group by
// group, so that threads meet nowhere and an element is moved once.
class GroupLists {
 public:
  // `ranks` are those of `values`, which are the values of the support.
  GroupLists(const Support& support, Span<const float> values, const SignRanks& ranks,
             uint32_t sign, const GroupedSketchConfig& config, Executor* executor);

  const BucketGroups& grouping() const { return grouping_; }
  // Mean magnitudes of the buckets.
  const std::vector<float>& means() const { return means_; }
  GroupElements Elements(uint32_t group) const;

 private:
  // What the blocks have in common.
  struct Source;

  // Lists the elements of the sign with ranks [begin, end), the first of which is at `position`.
  BucketSums ListBlock(const Source& source, size_t position, int64_t begin, int64_t end);

  BucketGroups grouping_;
  std::vector<float> means_;
  std::unique_ptr<uint32_t[]> keys_;
  std::unique_ptr<uint16_t[]> offsets_;
  int64_t block_elements_ = 0;
  std::vector<uint32_t> begins_;  // Of each group of each block among the elements; and the end.
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_JOINT_GROUP_LISTS_H_
