// The Bloom filter of DeepReduce section 4 on the device. p0 takes all positives, naive and
// leftmost the first k, middle and rightmost the middle or last k; for p1 and p2 see
// bloom_priorities.h.
#ifndef TFCOMPRESS_CUDA_BLOOM_H_
#define TFCOMPRESS_CUDA_BLOOM_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/index/bloom_policy.h"
#include "core/sketch/bloom_filter.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bloom_priorities.h"
#include "cuda/marks.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct BloomState {
  BloomShape shape;  // Has no bits if the section is broken.
  BloomPolicy policy;
  uint64_t num_bytes;  // Length of the filter.
  uint32_t k;          // Inserted indices; of a section, those to decode.
  uint32_t num_set;    // Set bits, for decoding.
  uint64_t first;      // Rank of the first index among the positives.
};

struct BloomBuffers {
  BloomState* state_dev;
  unsigned char* filter_dev;  // For encoding; padded to whole words.
  uint64_t num_filter_bytes;
  uint32_t* chosen_dev;             // For encoding: the indices that receivers will decode.
  BloomPriorityBuffers priorities;  // For p1 and p2.
};

// Takes buffers for encoding up to max_k indices of n, from which up to max_chosen are decoded.
void TakeBloomBuffers(BloomPolicy policy, const BloomRate& rate, uint32_t n, uint32_t max_k,
                      uint32_t max_chosen, Workspace* workspace, BloomBuffers* buffers);

// What decoding needs room for: maxima over sections of p1 and p2.
struct BloomExtent {
  uint32_t max_n = 0;
  uint32_t max_k = 0;
  uint64_t max_bits = 0;
  // Covers a section, if it is one of these.
  void Cover(ByteSpan section, uint32_t n, uint32_t k);
};

// Takes buffers for decoding.
void TakeBloomReadBuffers(const BloomExtent& extent, Workspace* workspace, BloomBuffers* buffers);

// Inserts the *k_dev <= max_k indices into a filter, lists the indices that the policy decodes from
// it, and sets *k_dev to their number. Overwrites the marks.
Status ChooseByBloom(BloomPolicy policy, const BloomRate& rate, uint64_t seed,
                     const uint32_t* indices_dev, uint32_t max_k, const Marks& marks,
                     const BloomBuffers& buffers, uint32_t* k_dev, cudaStream_t stream);
// Writes the section. Does nothing if *k_dev is 0.
Status WriteBloom(const BloomBuffers& buffers, const uint32_t* k_dev, unsigned char* section_dev,
                  cudaStream_t stream);

// Decodes the k indices of a section, of which the host has the first byte, into indices_dev, using
// `marks` over the universe as scratch. Sets `bits` of *error_dev if it does not decode to k
// indices below n.
Status ReadBloom(ByteSpan section, const unsigned char* section_dev, uint32_t k, uint64_t seed,
                 const Marks& marks, const BloomBuffers& buffers, uint32_t bits,
                 uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_H_
