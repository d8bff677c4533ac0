// Merging the decoded lists of groups to one sparse vector.
#ifndef TFCOMPRESS_CORE_JOINT_MERGE_GROUPS_H_
#define TFCOMPRESS_CORE_JOINT_MERGE_GROUPS_H_

#include <cstdint>
#include <vector>

#include "core/codec.h"
#include "core/executor.h"
#include "core/joint/group_lists.h"
#include "core/status.h"

namespace tfcompress {

// A group as receivers know it: keys strictly ascend.
struct DecodedGroup {
  GroupElements elements;
  std::vector<float> values;  // Of its buckets, finite.
};

// Fills `out`, whose n, above all keys, and everything are given, with the elements of all groups.
// A key in two groups is DataLoss, and so is a missing one if everything is expected. Takes time of
// the order of the number of keys.
Status MergeGroups(const std::vector<DecodedGroup>& groups, Executor* executor, SparseTensor* out);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_JOINT_MERGE_GROUPS_H_
