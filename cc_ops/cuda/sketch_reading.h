// What the kernels know that read sections of the joint codecs.
#ifndef TFCOMPRESS_CUDA_SKETCH_READING_H_
#define TFCOMPRESS_CUDA_SKETCH_READING_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/byte_io.h"
#include "core/status.h"
#include "cuda/grouped_sketch.h"
#include "cuda/joint_spec.h"
#include "cuda/load_volatile.h"
#include "cuda/parts.h"
#include "cuda/sketch_group.h"
#include "cuda/support_section.h"
#include "cuda/value_codes.h"

namespace tfcompress {
namespace device {

// Sections side by side. Positions count from `codes`: the array that the sections lie in, or, for
// kSkcompress, the words that they are brought to.
struct SketchReading {
  // Where the section begins.
  __device__ uint64_t BeginOf(const SupportSection& section) const {
    return kind == JointKind::kSkcompress ? section.before.num_bytes
                                          : static_cast<uint64_t>(section.data_dev - codes);
  }
  __device__ bool HasError(const SketchGroup& group) const {
    return LoadVolatile(common_error) != 0 || LoadVolatile(sections[group.part].error_dev) != 0;
  }
  __device__ void SetError(uint32_t part) const { atomicOr(sections[part].error_dev, bits); }
  // Used only to load.
  __device__ BitPacking NumbersOf(const SketchGroup& group) const {
    return BitPacking(const_cast<unsigned char*>(codes) + group.cells_begin, BitsFor(group.width));
  }
  __device__ float MeanAt(const SketchGroup& group, uint32_t bucket) const {
    const uint64_t begin = buffers.layouts_dev[group.part].means_begin[group.sign];
    return LoadUnaligned<float>(codes + begin + sizeof(float) * bucket);
  }

  JointKind kind;
  const SupportSection* sections;
  uint32_t num_sections;
  const unsigned char* codes;
  SketchDecodeBuffers buffers;  // With as many lists and keys as these sections have.
  uint64_t max_tiles;           // Of keys.
  uint32_t* common_error;       // Of lists and cells.
  uint32_t bits;
};

// Brings sections of kSkcompress to the words, and finds the layout and the lists of each section;
// one that is invalid gets no keys.
Status ReadLayouts(const SketchReading& sketch, const Parts<SupportSection>& sections,
                   cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_READING_H_
