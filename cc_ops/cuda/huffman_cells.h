// The cells of the sketches of skcompress on the device: of each group, words of a Huffman code of
// its own, or numbers of equal length where that does not pay. core/joint/skcompress.cc.
#ifndef TFCOMPRESS_CUDA_HUFFMAN_CELLS_H_
#define TFCOMPRESS_CUDA_HUFFMAN_CELLS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/huffman_words.h"
#include "core/float_order.h"
#include "core/status.h"
#include "cuda/canonical_code.h"
#include "cuda/code_blocks.h"
#include "cuda/encode_state.h"
#include "cuda/joint_spec.h"
#include "cuda/key_lists.h"
#include "cuda/sketch_group.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// ---- Writing ------------------------------------------------------------------------------------

// For groups of up to kMaxCodedWidth buckets, max_buckets of each sign together, and max_cells
// cells of both.
struct CellWriteBuffers {
  uint32_t num_lists;
  uint32_t max_buckets;
  uint64_t max_cells;
  uint32_t* begins_dev;  // Of the cells of each group, as those of key lists.
  uint32_t* sizes_dev;
  uint32_t* first_tiles_dev;
  unsigned long long* counts_dev;  // Of the cells that hold each bucket,
  uint8_t* lengths_dev;            // and of its word, by the buckets of all groups.
  HuffmanWord* words_dev;
  uint64_t* ends_dev;  // Bits before each tile of cells; the last one is their sum.
  DeviceBuffer scan_storage;

  KeyLists lists() const {
    return {begins_dev, sizes_dev, first_tiles_dev, num_lists, static_cast<uint32_t>(max_cells)};
  }
  uint64_t num_symbols() const { return uint64_t{kNumSigns} * max_buckets; }
  uint64_t max_tiles() const { return MaxKeyTiles(num_lists, max_cells); }
};

// InvalidArgument for 2^32 cells and more.
Status TakeCellWriteBuffers(uint32_t num_lists, uint32_t max_buckets, uint64_t max_cells,
                            Workspace* workspace, CellWriteBuffers* buffers);

// Sets cells that no key was put into to 0, chooses how the cells of each group are written, and
// finds how long they are: group.num_cell_bytes.
Status MeasureCells(const CellWriteBuffers& buffers, SketchGroup* groups_dev, uint32_t* cells_dev,
                    cudaStream_t stream);
// Writes the cells to byte group.cells_begin of words that are zero. Does nothing where *k_dev is 0
// by now.
Status WriteCodedCells(const CellWriteBuffers& buffers, const SketchGroup* groups_dev,
                       const uint32_t* cells_dev, const uint32_t* k_dev, uint32_t* words_dev,
                       cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

// For groups of up to max_buckets buckets of each sign together, and max_cells cells of both.
struct CellReadBuffers {
  uint8_t* lengths_dev;      // Of the words of the buckets of all groups,
  uint16_t* symbols_dev;     // which are these, by the places of the words.
  CanonicalCode* codes_dev;  // Of each group.
  uint16_t* cells_dev;       // Of groups that have a code.
};

void TakeCellReadBuffers(uint32_t num_lists, uint32_t max_buckets, uint64_t max_cells,
                         Workspace* workspace, CellReadBuffers* buffers);

// Reads the cells of extent.num_streams groups, in a section of that extent, whose keys end at
// codes.list_ends_dev, up to where the groups end: sets where those that are numbers stand, and
// decodes the others to cells_dev. Sets bits of *error_dev where they are no cells; does nothing
// where one is set before. The numbers are checked elsewhere.
Status ReadCodedCells(const CodeExtent& extent, const CodeReadBuffers& codes,
                      const CellReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                      SketchGroup* groups_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_HUFFMAN_CELLS_H_
