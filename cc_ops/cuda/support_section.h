// Sections that supports are decoded from, of several frames side by side.
#ifndef TFCOMPRESS_CUDA_SUPPORT_SECTION_H_
#define TFCOMPRESS_CUDA_SUPPORT_SECTION_H_

#include <cstdint>

#include "cuda/marks.h"
#include "cuda/sketch_group.h"

namespace tfcompress {
namespace device {

// The index section of a frame, its seed where that tells the support, or the section of a joint
// codec. Where k is 0 there is nothing to decode, and nothing but `before` is valid.
struct SupportSection {
  const unsigned char* data_dev;
  uint64_t num_bytes;
  uint64_t seed;  // Of the frame.
  uint32_t n;
  uint32_t k;
  Marks marks;            // Of n elements, scratch: those of all frames lie end to end.
  uint32_t* indices_dev;  // What is decoded: k indices, ascending.
  float* values_dev;      // With a joint codec, their values.
  uint32_t* error_dev;
  SketchExtent before{};  // With a joint codec: the sections before this one.
};

// For sizes of launches: its indices, and the words of its marks, for each of which a thread.
inline uint64_t SupportSizeOf(const SupportSection& section) { return section.k; }
inline uint64_t MarkWordsOf(const SupportSection& section) {
  return section.k == 0 ? 0 : section.marks.num_tiles() * kTileWords;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SUPPORT_SECTION_H_
