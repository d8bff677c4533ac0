// The cells of the sketches of skcompress on the device: for each group, words of its own Huffman
// code, or numbers of equal length if those are shorter. core/joint/skcompress.cc.
#ifndef TFCOMPRESS_CUDA_HUFFMAN_CELLS_H_
#define TFCOMPRESS_CUDA_HUFFMAN_CELLS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/huffman_words.h"
#include "core/float_order.h"
#include "core/status.h"
#include "cuda/canonical_code.h"
#include "cuda/code_blocks.h"
#include "cuda/joint_spec.h"
#include "cuda/key_lists.h"
#include "cuda/sketch_group.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// ---- Writing ------------------------------------------------------------------------------------

// Buffers for groups of up to kMaxCodedWidth buckets each, which have num_symbols buckets and
// max_cells cells together.
struct CellWriteBuffers {
  uint64_t num_symbols;
  KeyLists lists;                  // The cells of each group.
  unsigned long long* counts_dev;  // For each bucket of all groups, the cells that hold it.
  uint8_t* lengths_dev;            // For each bucket of all groups, the length of its word.
  HuffmanWord* words_dev;
  uint64_t* ends_dev;  // Bits before each tile of cells; the last one is their sum.

  uint64_t max_tiles() const { return MaxKeyTiles(lists.num_lists, lists.max_keys); }
};

// Fails with InvalidArgument for 2^32 cells and more.
Status TakeCellWriteBuffers(uint32_t num_lists, uint64_t num_symbols, uint64_t max_cells,
                            Workspace* workspace, CellWriteBuffers* buffers);

// Sets empty cells to 0, chooses how the cells of each group are written, and sets their length,
// group.num_cell_bytes.
Status MeasureCells(const CellWriteBuffers& buffers, SketchGroup* groups_dev, uint32_t* cells_dev,
                    cudaStream_t stream);
// Writes the cells to byte group.cells_begin of words that are zero. Does nothing for lists that
// have become empty.
Status WriteCodedCells(const CellWriteBuffers& buffers, const SketchGroup* groups_dev,
                       const uint32_t* cells_dev, uint32_t* words_dev, cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

// Buffers for groups that have num_symbols buckets and max_cells cells together.
struct CellReadBuffers {
  uint8_t* lengths_dev;      // Length of the word of each bucket of all groups.
  uint16_t* symbols_dev;     // Buckets in the order of their words.
  CanonicalCode* codes_dev;  // One for each group.
  uint16_t* cells_dev;       // Cells of groups that have a code.
};

void TakeCellReadBuffers(uint32_t num_lists, uint64_t num_symbols, uint64_t max_cells,
                         Workspace* workspace, CellReadBuffers* buffers);

// Reads the cells of extent.num_streams groups, from the ends of their keys at codes.list_ends_dev
// to the ends of the groups, in sections of that extent: sets the position of cells that are
// numbers, and decodes the others to cells_dev. Sets bits of *error_dev if cells are invalid; does
// nothing if an error is set before. Does not check the numbers: callers do.
Status ReadCodedCells(const CodeExtent& extent, const CodeReadBuffers& codes,
                      const CellReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                      SketchGroup* groups_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_HUFFMAN_CELLS_H_
