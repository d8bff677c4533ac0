// Index sections of Bloom filters (DeepReduce section 4) on the device, of frames side by side. p0
// takes all positives, naive and leftmost the first k, middle and rightmost the middle or last k;
// for p1 and p2 see bloom_priorities.h.
#ifndef TFCOMPRESS_CUDA_BLOOM_H_
#define TFCOMPRESS_CUDA_BLOOM_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/index/bloom_policy.h"
#include "core/sketch/bloom_filter.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bloom_parts.h"
#include "cuda/bloom_priorities.h"
#include "cuda/encoded_frame.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/sample_size.h"
#include "cuda/select_largest.h"
#include "cuda/support_section.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// ---- Encoding ----------------------------------------------------------------------------------

struct BloomSpec {
  BloomPolicy policy;
  BloomRate rate;
};

struct BloomBuffers {
  BloomPart* parts_dev = nullptr;
  uint32_t* filters_dev = nullptr;  // Of all frames, each in whole words.
  uint64_t num_filter_words = 0;
  BloomPriorityBuffers priorities;
};

// Takes buffers for frames whose bounds of supports are set, and `marks` for those of all, and
// gives the frames their words of code, their length, and the indices that receivers will decode.
// For p1 and p2 frames have a SelectSpace for max_k elements.
BloomBuffers TakeBloomBuffers(const BloomSpec& spec, const Marks& marks, Span<EncodedFrame> frames,
                              Workspace* workspace);

// Inserts each support into a filter, lists the indices that the policy decodes from it, and sets
// the state's k to their number. Overwrites the marks, which are those of all frames.
Status ChooseByBloom(const BloomSpec& spec, const Parts<EncodedFrame>& frames, const Marks& marks,
                     const BloomBuffers& buffers, cudaStream_t stream);
// Writes the sections; none where the state's k is 0.
Status WriteBlooms(const BloomSpec& spec, const Parts<EncodedFrame>& frames,
                   const BloomBuffers& buffers, cudaStream_t stream);

// ---- Decoding ----------------------------------------------------------------------------------

// What the host knows of a section beside its SupportSection, and, for p1 and p2, where it has its
// buffers among those of all.
struct BloomPlace {
  BloomPolicy policy = BloomPolicy::kNaive;  // Untrusted.
  SampleSize sample;
  uint64_t first_candidate = 0;
  uint64_t first_size_word = 0;
};

// What sections that are decoded together need room for.
struct BloomExtent {
  size_t num_sections = 0;
  bool has_priorities = false;
  uint64_t num_candidates = 0;
  uint64_t num_size_words = 0;

  // Places the next of the sections, for k indices below n. The host has its first byte.
  BloomPlace Place(ByteSpan section, uint32_t n, uint32_t k);
};

struct BloomReadBuffers {
  BloomPart* parts_dev = nullptr;
  SelectSpace select;  // Of all sections.
  BloomPriorityBuffers priorities;
};

// Takes buffers for decoding with `marks`, which are those of all sections.
BloomReadBuffers TakeBloomReadBuffers(const BloomExtent& extent, const Marks& marks,
                                      Workspace* workspace);

// Decodes sections, of the same number of places, to k indices each. Sets `bits` of the error of
// those that do not decode to k indices below n; their indices are unspecified. Uses `marks`, those
// of all sections, as scratch.
Status ReadBlooms(const Parts<SupportSection>& sections, const Parts<BloomPlace>& places,
                  const Marks& marks, const BloomReadBuffers& buffers, uint32_t bits,
                  cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_H_
