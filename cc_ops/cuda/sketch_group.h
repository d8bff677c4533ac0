// One group of a sketch, as kernels are told of it.
#ifndef TFCOMPRESS_CUDA_SKETCH_GROUP_H_
#define TFCOMPRESS_CUDA_SKETCH_GROUP_H_

#include <cstdint>

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

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_GROUP_H_
