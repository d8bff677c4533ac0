// The elements of supports, prepared for grouped sketches (SketchML 3.2 and 3.3): separated by
// sign, magnitudes in quantile buckets, and a list of keys for each group of buckets.
#ifndef TFCOMPRESS_CUDA_GROUP_LISTS_H_
#define TFCOMPRESS_CUDA_GROUP_LISTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/float_order.h"
#include "core/joint/bucket_groups.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/encoded_frame.h"
#include "cuda/key_lists.h"
#include "cuda/parts.h"
#include "cuda/sketch_group.h"
#include "cuda/sort.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Buffers for the elements of frames, those of each after those of the frame before. Every frame
// has `groups` lists for nonnegative elements, then as many for negative ones.
struct GroupListsBuffers {
  uint32_t max_keys;  // Of all frames together.
  GroupedSketchConfig config;
  uint64_t num_tiles;       // Of the elements of each frame.
  uint64_t* negatives_dev;  // Negative elements of each tile; after the scan, before it.
  uint32_t* counts_dev;     // Number of elements of each sign of each frame.
  float* magnitudes_dev[kNumSigns];
  uint32_t* split_keys_dev;     // Of each frame: the keys of one sign, then those of the other.
  uint32_t* split_offsets_dev;  // The bucket of each key within its group.
  QuantizerBuffers quantizer;   // A part for each sign of each frame.
  SortSize lists;               // The lists take the place of the codes, and are sorted.
  // Results: the keys of the lists, and the bucket of each key within its group. They take the
  // place of what the sort does not need any more.
  uint32_t* keys_dev;
  uint32_t* offsets_dev;
  KeyLists key_lists;

  uint32_t lists_per_frame() const { return kNumSigns * config.groups; }
  // Buckets that all frames may have together.
  uint64_t num_symbols() const {
    const QuantizerPart& last = quantizer.parts.back();
    return uint64_t{last.first_code} + last.max_used_buckets();
  }
  uint64_t max_tiles() const { return MaxKeyTiles(key_lists.num_lists, max_keys); }
};

// Takes buffers for frames of up to max_sizes[i] elements each. Fails with InvalidArgument if there
// are too many.
Status TakeGroupLists(const GroupedSketchConfig& config, Span<const uint32_t> max_sizes,
                      Workspace* workspace, GroupListsBuffers* buffers);

// Makes the lists of the supports of frames, some of which may have elements.
Status MakeGroupLists(const Parts<EncodedFrame>& frames, const Parts<SketchPlace>& places,
                      const GroupListsBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_GROUP_LISTS_H_
