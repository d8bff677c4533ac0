// Stable sorting by the low bits of a key, over the whole device.
#ifndef TFCOMPRESS_CUDA_SORT_H_
#define TFCOMPRESS_CUDA_SORT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Items before and after a sort, and its temporary storage, for one number of items, and for that
// of bits or fewer.
struct SortBuffers {
  uint64_t num_items;
  int num_bits;
  uint32_t* keys_dev;
  uint32_t* sorted_keys_dev;
  uint32_t* payloads_dev;  // Null if only keys are sorted.
  uint32_t* sorted_payloads_dev;
  DeviceBuffer storage;
};

Status TakeSortBuffers(uint64_t num_items, int num_bits, bool has_payloads, Workspace* workspace,
                       SortBuffers* buffers);

// Sorts by the low num_bits of the keys; equal keys keep their order. The input items are kept.
Status Sort(const SortBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SORT_H_
