// The groups of a sketch, as kernels and those who make room for them are told of them.
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
  uint32_t width;         // Of its buckets; 0 where there is no such group.
  uint32_t first_bucket;  // Of its sign,
  uint32_t first_symbol;  // and among the buckets of both signs.
  uint32_t num_columns;
  uint64_t num_cells;
  uint64_t first_cell;      // Of the cells of all groups.
  uint64_t num_key_bytes;   // As they are written,
  uint64_t num_cell_bytes;  // as are the cells.
  uint64_t keys_begin;      // Where its keys and its cells stand in the section.
  uint64_t cells_begin;
  bool has_code;              // The cells are words of a Huffman code,
  uint32_t num_length_bytes;  // before which their lengths stand.
};

// What any section may have.
inline constexpr uint32_t kMaxSketchLists = kNumSigns * kMaxSketchGroups;

// What sections need of the workspace.
struct SketchExtent {
  uint32_t max_k;             // Of all.
  CodeExtent max_compressed;  // Of those in the format kSkcompress.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_GROUP_H_
