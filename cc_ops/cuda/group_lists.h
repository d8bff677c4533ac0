// The elements of a support as a grouped sketch takes them (SketchML 3.2 and 3.3): apart by sign,
// their magnitudes in quantile buckets, and a list of keys for each group of buckets.
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

// Up to max_k elements in `groups` lists of each sign, first those that are not negative.
struct GroupListsBuffers {
  uint32_t max_k;
  GroupedSketchConfig config;
  uint64_t* negatives_dev;  // How many of each tile of elements are, then before it.
  DeviceBuffer scan_storage;
  uint32_t* counts_dev;  // Of the elements of each sign.
  float* magnitudes_dev[kNumSigns];
  uint32_t* split_keys_dev;     // The keys of one sign, then those of the other,
  uint32_t* split_offsets_dev;  // and the buckets of their groups that they are in.
  QuantizerBuffers quantizer;
  SortBuffers lists;  // By list, with the places before the sort.
  // Results. keys_dev has the lists' keys, offsets_dev the places of their buckets in the group.
  uint32_t* keys_dev;
  uint32_t* offsets_dev;
  uint32_t* list_begins_dev;
  uint32_t* list_sizes_dev;
  uint32_t* list_first_tiles_dev;
  float* means_dev[kNumSigns];
  uint32_t* num_buckets_dev;  // Of each sign.

  uint32_t num_lists() const { return kNumSigns * config.groups; }
  uint64_t max_tiles() const { return MaxKeyTiles(num_lists(), max_k); }
  KeyLists key_lists() const {
    return {list_begins_dev, list_sizes_dev, list_first_tiles_dev, num_lists(), max_k};
  }
};

Status TakeGroupLists(const GroupedSketchConfig& config, uint32_t max_k, Workspace* workspace,
                      GroupListsBuffers* buffers);

// Of the *k_dev <= max_k values; max_k is above 0.
Status MakeGroupLists(const SelectedValues& values, const uint32_t* k_dev,
                      const GroupListsBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_GROUP_LISTS_H_
