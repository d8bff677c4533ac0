// Stable sorting by the low bits of a key, over the whole device: of items, or of several parts
// that lie end to end.
#ifndef TFCOMPRESS_CUDA_SORT_H_
#define TFCOMPRESS_CUDA_SORT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct SortSize {
  uint64_t num_items;
  int num_bits;
  uint32_t num_parts = 1;
};

struct SortBuffers {
  uint32_t* keys_dev;
  // Results: the keys, sorted, and where each was before, among all items.
  uint32_t* sorted_keys_dev;
  uint32_t* sorted_positions_dev;
  uint32_t* spare_dev;         // As long as the others; free before and after a sort.
  uint32_t* part_numbers_dev;  // As long as a sort of several parts needs, which uses it.
  DeviceBuffer storage;
};

// Takes the same memory for some sorts, which take turns. Fails with InvalidArgument if one has
// 2^32 items or more.
Status TakeSortBuffers(Span<const SortSize> sorts, Workspace* workspace, SortBuffers* buffers);

// Sorts each part by the low bits of the keys; equal keys keep their order. Part i begins at
// begins_dev[i], which is null if there is only one, and ends where the next one begins, the last
// one at *end_dev. Behind that, items stay as they are. The keys before the sort are kept.
Status Sort(const SortSize& size, const SortBuffers& buffers, const uint64_t* begins_dev,
            const uint64_t* end_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SORT_H_
