// The policies p1 and p2 of the Bloom filter on the device: a priority for each positive
// (core/index/bloom_policy.h), and the selection of the largest.
#ifndef TFCOMPRESS_CUDA_BLOOM_PRIORITIES_H_
#define TFCOMPRESS_CUDA_BLOOM_PRIORITIES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/index/bloom_policy.h"
#include "core/sketch/bloom_filter.h"
#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/select_largest.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct BloomPriorityBuffers {
  float* priorities_dev;    // Of all elements; 0 for those that are no positives.
  uint32_t* set_sizes_dev;  // A byte for each bit of the filter.
  uint64_t num_size_words;
  SelectSpace select;
  EncodeState* state_dev;  // Of the selection.
};

// Takes buffers for up to max_k positives among n elements, of filters of up to max_bits bits.
void TakeBloomPriorityBuffers(uint32_t n, uint32_t max_k, uint64_t max_bits, Workspace* workspace,
                              BloomPriorityBuffers* buffers);

// Lists the *k_dev positives of largest priority, ascending. `marks` holds the positives of a
// filter of *shape_dev and is overwritten. If there are fewer positives, what is listed is
// unspecified; if the filter has no bits, there are none.
Status ChooseByPriority(BloomPolicy policy, const BloomShape* shape_dev, uint64_t seed,
                        const uint32_t* k_dev, const Marks& marks,
                        const BloomPriorityBuffers& buffers, uint32_t* indices_dev,
                        cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_PRIORITIES_H_
