// The Bloom filter of DeepReduce section 4 on the device, with the policies that choose by rank:
// p0 takes all positives, naive and leftmost the first k, middle and rightmost the middle or last
// k. (p1 and p2 draw one index after the other.)
#ifndef TFCOMPRESS_CUDA_BLOOM_H_
#define TFCOMPRESS_CUDA_BLOOM_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/index/bloom_policy.h"
#include "core/sketch/bloom_filter.h"
#include "core/status.h"
#include "cuda/marks.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct BloomState {
  BloomShape shape;  // No bits where a section is broken.
  BloomPolicy policy;
  uint64_t num_bytes;  // Of the filter.
  uint32_t num_set;    // Bits, for decoding.
  uint64_t first;      // Of the indices among the positives.
};

struct BloomBuffers {
  BloomState* state_dev;
  unsigned char* filter_dev;  // For encoding: whole words.
  uint64_t num_filter_bytes;
  uint32_t* chosen_dev;  // For encoding: what the receivers will make of the filter.
};

// For encoding up to max_k indices, of which up to max_chosen are sent.
void TakeBloomBuffers(const BloomRate& rate, uint32_t max_k, uint32_t max_chosen,
                      Workspace* workspace, BloomBuffers* buffers);
// For decoding.
void TakeBloomState(Workspace* workspace, BloomBuffers* buffers);

// Fills a filter with the *k_dev <= max_k indices, lists what the policy makes of it, and sets
// *k_dev to how many these are. Overwrites the marks.
Status ChooseByBloom(BloomPolicy policy, const BloomRate& rate, uint64_t seed,
                     const uint32_t* indices_dev, uint32_t max_k, const Marks& marks,
                     const BloomBuffers& buffers, uint32_t* k_dev, cudaStream_t stream);
// Writes the section. Does nothing where *k_dev is 0 by now.
Status WriteBloom(const BloomBuffers& buffers, const uint32_t* k_dev, unsigned char* section_dev,
                  cudaStream_t stream);

// What ReadBloom finds wrong.
struct BloomErrors {
  uint32_t broken;      // The section is none of k indices below n.
  uint32_t no_variant;  // Its policy has no device variant.
};

// Overwrites indices_dev with the k indices that a section stands for, by way of the marks of the
// universe. Sets bits of *error_dev where it cannot.
Status ReadBloom(const unsigned char* section_dev, uint64_t num_section_bytes, uint32_t k,
                 uint64_t seed, const Marks& marks, const BloomBuffers& buffers,
                 const BloomErrors& bits, uint32_t* error_dev, uint32_t* indices_dev,
                 cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_H_
