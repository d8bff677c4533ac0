// The groups of a sketch, for kernels and for the code that sizes their buffers.
#ifndef TFCOMPRESS_CUDA_SKETCH_GROUP_H_
#define TFCOMPRESS_CUDA_SKETCH_GROUP_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/joint/bucket_groups.h"
#include "cuda/code_blocks.h"

namespace tfcompress {
namespace device {

// A list of keys and its sketch. Lists are numbered sign after sign.
struct SketchGroup {
  uint64_t seed;
  uint32_t width;         // Number of buckets; 0 if the group is absent.
  uint32_t first_bucket;  // First bucket, among those of its sign.
  uint32_t first_symbol;  // First bucket, among those of both signs.
  uint32_t num_columns;
  uint64_t num_cells;
  uint64_t first_cell;      // First cell, among those of all groups.
  uint64_t num_key_bytes;   // Length of the written keys.
  uint64_t num_cell_bytes;  // Length of the written cells.
  uint64_t keys_begin;      // Positions of keys and cells in the section.
  uint64_t cells_begin;
  bool has_code;              // Whether the cells are words of a Huffman code.
  uint32_t num_length_bytes;  // Bytes of the word lengths before the cells.
};

// Maximum of any section.
inline constexpr uint32_t kMaxSketchLists = kNumSigns * kMaxSketchGroups;

// Maximum sizes of sections, for the workspace.
struct SketchExtent {
  uint32_t max_k;             // Over all sections.
  CodeExtent max_compressed;  // Over sections of kSkcompress.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_GROUP_H_
