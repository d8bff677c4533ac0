// The elements of a support, prepared for a grouped sketch (SketchML 3.2 and 3.3): separated by
// sign, magnitudes in quantile buckets, and a list of keys for each group of buckets.
#ifndef TFCOMPRESS_CUDA_GROUP_LISTS_H_
#define TFCOMPRESS_CUDA_GROUP_LISTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/float_order.h"
#include "core/joint/bucket_groups.h"
#include "core/status.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/key_lists.h"
#include "cuda/sort.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Buffers for up to max_k elements in `groups` lists of each sign, nonnegative elements first.
struct GroupListsBuffers {
  uint32_t max_k;
  GroupedSketchConfig config;
  uint64_t* negatives_dev;  // Negative elements of each tile; after the scan, before it.
  uint32_t* counts_dev;     // Number of elements of each sign.
  float* magnitudes_dev[kNumSigns];
  uint32_t* split_keys_dev;     // The keys of one sign, then those of the other.
  uint32_t* split_offsets_dev;  // The bucket of each key within its group.
  QuantizerBuffers quantizer;
  SortBuffers lists;  // Sorted by list, with the places before the sort.
  // Results: the keys of the lists, and the bucket of each key within its group. They take the
  // place of the quantizer's codes before their sort; `lists` shares what is behind that sort.
  uint32_t* keys_dev;
  uint32_t* offsets_dev;
  KeyLists key_lists;
  float* means_dev[kNumSigns];
  uint32_t* num_buckets_dev;  // For each sign.

  uint64_t max_tiles() const { return MaxKeyTiles(key_lists.num_lists, max_k); }
};

Status TakeGroupLists(const GroupedSketchConfig& config, uint32_t max_k, Workspace* workspace,
                      GroupListsBuffers* buffers);

// Makes the lists of *k_dev <= max_k values; max_k is above 0.
Status MakeGroupLists(const SelectedValues& values, const uint32_t* k_dev,
                      const GroupListsBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_GROUP_LISTS_H_
