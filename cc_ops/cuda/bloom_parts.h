// Bloom filters side by side on the device: the positives of each, and which of them are chosen.
#ifndef TFCOMPRESS_CUDA_BLOOM_PARTS_H_
#define TFCOMPRESS_CUDA_BLOOM_PARTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/index/bloom_policy.h"
#include "core/sketch/bloom_filter.h"
#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

struct BloomPart {
  BloomShape shape;    // Has no bits if the section is broken.
  BloomPolicy policy;  // A known one, if there are bits.
  uint32_t num_set;    // Set bits, for decoding.
  uint32_t k;          // Inserted indices, then chosen ones; 0 if the section is broken.
  uint64_t first;      // Rank of the first chosen one among the positives.
  uint64_t num_bytes;  // Length of the filter.
  const unsigned char* filter_dev;
  uint64_t seed;
  Marks marks;  // Scratch, then the positives.
  uint32_t* chosen_dev;
  // For p1 and p2; see BloomPriorityBuffers.
  float* priorities_dev;
  uint32_t* set_sizes_dev;
  EncodeState* state_dev;
};

// The table is made on the device; the host knows how many marks there are.
struct BloomParts {
  BloomPart* data_dev;
  uint64_t count;
  PartItems words;  // Of marks.
  Marks marks;      // Of all parts, end to end.
};

// Marks the positives of each filter, and scans the marks.
Status MarkPositives(const BloomParts& parts, cudaStream_t stream);

// Lists the positives that policies other than p1 and p2 choose.
Status ListChosen(const BloomParts& parts, cudaStream_t stream);

// Begins the choice of part->k of at least as many positives.
__device__ inline void BeginChoice(uint64_t num_positives, BloomPart* part) {
  part->first = RankOfFirst(part->policy, num_positives - part->k);
  if (!ChoosesByPriority(part->policy) || part->k == 0) return;
  EncodeState state{};
  state.k = state.num_wanted = part->k;
  *part->state_dev = state;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_PARTS_H_
