// The policies p1 and p2 of Bloom filters on the device: a priority for each positive
// (core/index/bloom_policy.h), and the selection of the largest.
#ifndef TFCOMPRESS_CUDA_BLOOM_PRIORITIES_H_
#define TFCOMPRESS_CUDA_BLOOM_PRIORITIES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bloom_parts.h"
#include "cuda/compensate.h"
#include "cuda/encode_state.h"
#include "cuda/encoded_frame.h"
#include "cuda/marks.h"
#include "cuda/select_largest.h"
#include "cuda/tiles.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct BloomPriorityBuffers {
  EncodedFrame* vectors_dev = nullptr;  // To select from, one for each filter; null if no filter
                                        // chooses by priority.
  EncodeState* states_dev = nullptr;    // Of the selections.
  float* priorities_dev = nullptr;      // Where marks lie; 0 for those that are no positives.
  uint32_t* set_sizes_dev = nullptr;    // A byte for each bit of filters of p2.
  uint64_t num_size_words = 0;

  // Those of a filter, whose marks are a slice of `all`.
  TFC_HOST_DEVICE float* PrioritiesOf(const Marks& marks, const Marks& all) const {
    return priorities_dev + (marks.words_dev - all.words_dev) * 32;
  }
  // The vector of the i-th filter. Nothing is selected from a slice of no elements.
  TFC_HOST_DEVICE EncodedFrame VectorOf(uint64_t i, const Marks& marks, const Marks& all,
                                        const SelectSpace& select, uint32_t* chosen_dev) const {
    return ToSelectFrom(PrioritiesOf(marks, all), select, marks, states_dev + i, chosen_dev);
  }
  // Writes the vector of the i-th filter, from which nothing is selected before BeginChoice.
  __device__ void Place(uint64_t i, const Marks& marks, const Marks& all, const SelectSpace& select,
                        uint32_t* own_set_sizes_dev, BloomPart* part) const {
    vectors_dev[i] = VectorOf(i, marks, all, select, part->chosen_dev);
    EncodeState nothing{};
    nothing.nonfinite = 1;
    states_dev[i] = nothing;
    part->priorities_dev = PrioritiesOf(marks, all);
    part->set_sizes_dev = own_set_sizes_dev;
    part->state_dev = states_dev + i;
  }
};

// Takes buffers for filters whose marks are `marks`, end to end.
BloomPriorityBuffers TakeBloomPriorityBuffers(uint64_t num_filters, const Marks& marks,
                                              uint64_t num_size_words, Workspace* workspace);

// Lists, of filters that choose by priority, the positives of largest priority, ascending, after
// BeginChoice. Overwrites the marks, which hold the positives. `vectors` are those of
// buffers.vectors_dev. Some filters have the policy p1, if has_random, or p2, if has_weighed.
Status ChooseByPriority(const BloomParts& parts, bool has_random, bool has_weighed,
                        const BloomPriorityBuffers& buffers, Span<const EncodedFrame> vectors,
                        cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_PRIORITIES_H_
