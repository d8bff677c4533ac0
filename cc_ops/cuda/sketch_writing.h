// What the kernels know that write sections of the joint codecs.
#ifndef TFCOMPRESS_CUDA_SKETCH_WRITING_H_
#define TFCOMPRESS_CUDA_SKETCH_WRITING_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/float_order.h"
#include "core/frame.h"
#include "core/joint/bucket_groups.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/encoded_frame.h"
#include "cuda/grouped_sketch.h"
#include "cuda/key_lists.h"
#include "cuda/parts.h"
#include "cuda/sketch_group.h"

namespace tfcompress {
namespace device {

// Frames side by side. Positions count from the front of a section or, for kSkcompress, of the
// words of all.
struct SketchWriting {
  __device__ uint32_t lists_per_frame() const { return kNumSigns * config.groups; }
  __device__ const EncodedFrame& FrameOf(uint32_t list) const {
    return frames[list / lists_per_frame()];
  }
  __device__ const QuantizerPart& SignOf(uint32_t list) const {
    return signs[list / config.groups];
  }
  // What positions in the section of a frame count from.
  __device__ unsigned char* FrontOf(uint32_t frame) const {
    return frames[frame].data_dev + kFrameHeaderBytes - places[frame].first_byte;
  }

  const EncodedFrame* frames;
  uint64_t num_frames;
  const SketchPlace* places;
  const QuantizerPart* signs;
  GroupedSketchConfig config;
  KeyLists lists;
  uint64_t max_tiles;
  const uint32_t* keys;
  SketchGroup* groups;
  uint32_t* cells;
};

inline SketchWriting WritingOf(const Parts<EncodedFrame>& frames,
                               const GroupedSketchBuffers& buffers) {
  const GroupListsBuffers& lists = buffers.lists;
  return {frames.data_dev,    frames.size(),    buffers.places_dev, lists.quantizer.parts_dev,
          lists.config,       lists.key_lists,  lists.max_tiles(),  lists.keys_dev,
          buffers.groups_dev, buffers.cells_dev};
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_WRITING_H_
