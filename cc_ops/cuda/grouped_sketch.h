// The joint codecs sketchml and skcompress on the device: a MinMaxSketch of bucket numbers for each
// group of quantile buckets (SketchML 3.2 to 3.4, SKCompress 4.2; FORMAT.md, "Grouped sketches").
#ifndef TFCOMPRESS_CUDA_GROUPED_SKETCH_H_
#define TFCOMPRESS_CUDA_GROUPED_SKETCH_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/delta_bytes.h"
#include "cuda/encode_state.h"
#include "cuda/group_lists.h"
#include "cuda/huffman_cells.h"
#include "cuda/joint_spec.h"
#include "cuda/key_lists.h"
#include "cuda/marks.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/sent_slots.h"
#include "cuda/sketch_group.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct GroupedSketchBuffers {
  JointKind kind;
  GroupListsBuffers lists;
  DeltaBuffers deltas;           // kSketchml
  DeltaWriteBuffers prefixed;    // kSkcompress, as are
  CellWriteBuffers coded_cells;  // these. Both write to prefixed.codes.words_dev first.
  SketchGroup* groups_dev;
  uint64_t* key_begins_dev;  // Begins of the groups' keys, for EncodeDeltas.
  uint32_t* cells_dev;       // One word each.
  uint64_t max_cells;
  uint64_t* num_value_bytes_dev;  // Length of the section.
};

// Takes buffers for up to max_k values in sections of up to max_bytes bytes.
Status TakeGroupedSketch(const JointSpec& spec, uint32_t max_k, uint64_t max_bytes,
                         Workspace* workspace, GroupedSketchBuffers* buffers);

// Puts the *k_dev <= max_k values into buckets, groups and sketches, and finds the length of the
// section; `seed` is the frame's.
Status PrepareGroupedSketch(const SelectedValues& values, const uint32_t* k_dev, uint64_t seed,
                            const GroupedSketchBuffers& buffers, cudaStream_t stream);
// Writes the section, and subtracts its decoded values from the slots. Does nothing if state_dev->k
// is 0.
Status WriteGroupedSketch(uint32_t n, const GroupedSketchBuffers& buffers,
                          const EncodeState* state_dev, const SentSlots& slots,
                          unsigned char* frame_dev, cudaStream_t stream);

// ---- Decoding ----------------------------------------------------------------------------------

struct SketchLayout {
  uint32_t num_rows;
  uint32_t num_buckets[kNumSigns];
  uint64_t means_begin[kNumSigns];  // Positions in the section.
};

struct SketchDecodeBuffers {
  uint32_t max_buckets;  // For each sign.
  SketchLayout* layout_dev;
  SketchGroup* groups_dev;
  KeyLists lists;
  uint64_t* key_begins_dev;
  uint64_t* num_key_bytes_dev;
  DeltaBuffers deltas;
  DeltaReadBuffers prefixed;
  CellReadBuffers coded_cells;
  uint32_t* keys_dev;
};

void TakeSketchDecodeBuffers(const SketchExtent& extent, Workspace* workspace,
                             SketchDecodeBuffers* buffers);

// A section on the device, and the size of its vector.
struct SketchSectionView {
  JointKind kind;
  const unsigned char* data_dev;
  uint64_t num_bytes;
  uint32_t n;
  uint32_t k;  // Above 0.
  uint64_t seed;
};

// Adds scale times the k elements of a section to sum_dev, using the marks of the universe as
// scratch. Sets bits of *error_dev if the section is invalid; does nothing if an error is set
// before.
Status AddGroupedSketch(const SketchSectionView& section, float scale, const Marks& marks,
                        const SketchDecodeBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                        float* sum_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_GROUPED_SKETCH_H_
