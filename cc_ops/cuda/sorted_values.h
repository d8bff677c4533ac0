// Sorted values and the permutation back, on the device: core/value/sorted_values.h.
#ifndef TFCOMPRESS_CUDA_SORTED_VALUES_H_
#define TFCOMPRESS_CUDA_SORTED_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/sort.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Buffers of frames side by side: the values of each follow those of the frame before.
struct SortedBuffers {
  SortSize size;
  SortBuffers sort;

  // Results: where the values of each frame begin; the SortKeys of its values, ascending; and the
  // rank of each value among those of its frame.
  uint64_t* begins_dev;
  const uint32_t* keys_dev() const { return sort.sorted_keys_dev; }
  const uint32_t* ranks_dev() const { return sort.keys_dev; }
  // Room for a number for each value.
  float* table_dev() const { return reinterpret_cast<float*>(sort.spare_dev); }
};

// Takes buffers for frames that send at most max_sent values each.
Status TakeSortedBuffers(Span<const EncodedFrame> frames, Workspace* workspace,
                         SortedBuffers* buffers);

// Sorts the values that each frame sends, without NaN.
Status SortValues(const Parts<EncodedFrame>& frames, const SortedBuffers& buffers,
                  cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SORTED_VALUES_H_
