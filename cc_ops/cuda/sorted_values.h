// Sorted values and the permutation back, on the device: core/value/sorted_values.h.
#ifndef TFCOMPRESS_CUDA_SORTED_VALUES_H_
#define TFCOMPRESS_CUDA_SORTED_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/sort.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct SortedBuffers {
  SortBuffers sort;  // Keys with positions.
  uint32_t* num_nonnegative_dev;

  // Results: the SortKeys of all values, ascending, the first *num_nonnegative_dev of nonnegative
  // values; and the rank of each value among them.
  const uint32_t* keys_dev() const { return sort.sorted_keys_dev; }
  const uint32_t* ranks_dev() const { return sort.keys_dev; }
};

// Takes buffers for up to max_count values.
Status TakeSortedBuffers(uint32_t max_count, Workspace* workspace, SortedBuffers* buffers);

// Sorts *count_dev <= max_count values, without NaN; max_count is above 0.
Status SortValues(const SelectedValues& values, const uint32_t* count_dev,
                  const SortedBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SORTED_VALUES_H_
