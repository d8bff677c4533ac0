// The joint codecs sketchml and skcompress on the device: a MinMaxSketch of bucket numbers for each
// group of quantile buckets (SketchML 3.2 to 3.4, SKCompress 4.2; FORMAT.md, "Grouped sketches").
#ifndef TFCOMPRESS_CUDA_GROUPED_SKETCH_H_
#define TFCOMPRESS_CUDA_GROUPED_SKETCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "cuda/delta_bytes.h"
#include "cuda/encoded_frame.h"
#include "cuda/group_lists.h"
#include "cuda/huffman_cells.h"
#include "cuda/joint_spec.h"
#include "cuda/key_lists.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/sketch_group.h"
#include "cuda/support_section.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// ---- Encoding ----------------------------------------------------------------------------------

// Most of what a frame may have.
struct SketchSize {
  uint32_t max_k;
  uint64_t max_bytes;  // Of the section.
};

struct GroupedSketchBuffers {
  JointKind kind;
  GroupListsBuffers lists;
  DeltaBuffers deltas;              // kSketchml, as are
  unsigned char** key_places_dev;   // where the keys of each list are written to.
  DeltaWriteBuffers prefixed;       // kSkcompress, as are
  CellWriteBuffers coded_cells;     // these. All write to prefixed.codes.words_dev first, keys from
  uint64_t* key_begins_dev;         // these bytes on.
  std::vector<SketchPlace> places;  // Of each frame.
  SketchPlace* places_dev;
  SketchGroup* groups_dev;
  uint32_t* cells_dev;  // One word each.
  uint64_t num_cells;
  uint64_t* num_value_bytes_dev;  // Length of the section of each frame.
};

// Takes buffers, which must be 0 before, for frames of these sizes. Fails with InvalidArgument if
// there are too many, or too many elements or cells.
Status TakeGroupedSketch(const JointSpec& spec, Span<const SketchSize> sizes, Workspace* workspace,
                         GroupedSketchBuffers* buffers);

// Puts the elements of the supports of frames into buckets, groups and sketches, and finds the
// lengths of the sections.
Status PrepareGroupedSketch(const Parts<EncodedFrame>& frames, const GroupedSketchBuffers& buffers,
                            cudaStream_t stream);
// Writes the sections, and subtracts their decoded values from the residuals. Does nothing for
// frames whose support has become empty. With kSkcompress, code_words_dev of each frame is where
// its place says.
Status WriteGroupedSketch(const Parts<EncodedFrame>& frames, const GroupedSketchBuffers& buffers,
                          cudaStream_t stream);

// ---- Decoding ----------------------------------------------------------------------------------

struct SketchLayout {
  uint32_t num_rows;
  uint32_t num_buckets[kNumSigns];
  uint64_t means_begin[kNumSigns];  // Positions.
};

struct SketchDecodeBuffers {
  SketchLayout* layouts_dev;  // One for each section.
  SketchGroup* groups_dev;
  KeyLists lists;
  uint64_t* key_begins_dev;
  uint64_t* num_key_bytes_dev;
  uint32_t* keys_dev;
  DeltaBuffers deltas;          // kSketchml
  DeltaReadBuffers prefixed;    // kSkcompress, as are
  CellReadBuffers coded_cells;  // these.
};

void TakeSketchDecodeBuffers(JointKind kind, const SketchExtent& extent, Workspace* workspace,
                             SketchDecodeBuffers* buffers);

// Decodes sections, which lie in one array and have their places, `before`, to the indices and the
// values of each; `marks` are those of all. Sets bits of the errors of sections that are invalid,
// and of *common_error_dev if one is whose keys or cells cannot be read: then all that have
// elements get an error. Sections whose error is set before are not read.
Status DecodeSketches(JointKind kind, const Parts<SupportSection>& sections, const Marks& marks,
                      const SketchDecodeBuffers& buffers, uint32_t bits, uint32_t* common_error_dev,
                      cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_GROUPED_SKETCH_H_
