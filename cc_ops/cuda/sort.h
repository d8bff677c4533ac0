// Stable sorting by the low bits of a key, over the whole device.
#ifndef TFCOMPRESS_CUDA_SORT_H_
#define TFCOMPRESS_CUDA_SORT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Items before and after a sort, and what it needs besides: for one number of items and bits.
struct SortBuffers {
  uint64_t num_items;
  int num_bits;
  uint32_t* keys_dev;
  uint32_t* sorted_keys_dev;
  uint32_t* payloads_dev;  // Null where keys are all there is.
  uint32_t* sorted_payloads_dev;
  DeviceBuffer storage;
};

Status TakeSortBuffers(uint64_t num_items, int num_bits, bool has_payloads, Workspace* workspace,
                       SortBuffers* buffers);

// Sorts by the low num_bits; equal ones keep their order. The unsorted items stay.
Status Sort(const SortBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SORT_H_
