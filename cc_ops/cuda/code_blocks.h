// Code blocks (FORMAT.md) on the device: codes of different lengths, of which every 65536 are a
// block. Sections begin at any byte; they are written to, and read from, aligned words.
//
// Writing: the bits of tiles of 1024 items are counted and summed, so that every lane knows where
// its code goes.
//
// Reading: where a code begins is only known from the one before. But how long a code is, its bits
// tell, and it is short. So the bits of a block are cut into tiles, and for each bit of a tile at
// which its first code may begin, a lane walks through it and notes in which bit of the next tile
// it arrives, and with how many codes. A warp then follows these notes from the first tile of a
// block to its last, and what is left is to decode each tile from where it truly begins.
#ifndef TFCOMPRESS_CUDA_CODE_BLOCKS_H_
#define TFCOMPRESS_CUDA_CODE_BLOCKS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/code_block_size.h"
#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

inline constexpr uint32_t kCodeBlockItems = static_cast<uint32_t>(kCodeBlock);

// ---- Writing ------------------------------------------------------------------------------------

// What is written of a section.
struct CodeSectionSize {
  uint64_t blocks_begin;  // Bytes before the lengths of the blocks,
  uint64_t num_bytes;     // and all.
};

// For up to max_items items in sections of up to max_bytes bytes.
struct CodeWriteBuffers {
  uint32_t max_items;
  uint32_t* words_dev;
  CodeSectionSize* size_dev;
  uint32_t* tile_begins_dev;  // Bits of each tile of items, then those before it in its block.
  uint64_t* ends_dev;         // Bytes before each block; the last one is their sum.
  DeviceBuffer scan_storage;
};

Status TakeCodeWriteBuffers(uint32_t max_items, uint64_t max_bytes, Workspace* workspace,
                            CodeWriteBuffers* buffers);

// With the bits of tiles in place: finds where tiles and blocks go, and how many bytes there are
// besides the size_dev->blocks_begin ones before them.
Status PlaceCodeBlocks(const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                       cudaStream_t stream);
// Clears the words, before code_walk.h writes to them. Like all that follows, does nothing where
// *num_items_dev is 0 by now.
Status ClearCodeSection(const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                        cudaStream_t stream);
// Stores all bytes of the words.
Status StoreCodeSection(const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                        unsigned char* section_dev, cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

inline constexpr uint32_t kWalkTileBits = 1024;
// The longest code: that many bits of a tile may be the first one's.
inline constexpr uint32_t kMaxCodeBits = 48;

// What is known of a section before its blocks are read; set by who knows what stands before them.
struct CodeSection {
  uint64_t blocks_begin;   // Bytes before the lengths of the blocks.
  uint32_t max_code_bits;  // At most kMaxCodeBits.
  uint64_t num_bytes;      // Where the last block ends; set by reading it.
};

// Where the true first code of a tile begins.
struct WalkStart {
  uint32_t first_item;  // In its block; the number of its items where a tile has none.
  uint32_t bit;         // Of the tile.
};

// For up to max_items items in sections of up to max_bytes bytes.
struct CodeReadBuffers {
  uint32_t* words_dev;
  CodeSection* section_dev;
  uint64_t* begins_dev;   // Bytes of the blocks before each one.
  uint32_t* notes_dev;    // kMaxCodeBits for each tile.
  WalkStart* starts_dev;  // Of each tile.
  DeviceBuffer scan_storage;
};

// Enough tiles for the blocks, each of which begins with one of its own.
TFC_HOST_DEVICE inline uint64_t NumWalkTiles(uint64_t num_items, uint64_t num_bytes) {
  return num_bytes * 8 / kWalkTileBits + NumCodeBlocks(num_items) + 1;
}

Status TakeCodeReadBuffers(uint32_t max_items, uint64_t max_bytes, Workspace* workspace,
                           CodeReadBuffers* buffers);

// A list of codes in a section, or at the front of one: all that decides how much is launched.
struct CodeList {
  uint32_t num_items;
  uint64_t num_bytes;  // At most: to the end of the section.
};

// Copies a section to the words.
Status LoadCodeSection(const unsigned char* section_dev, const CodeList& list,
                       const CodeReadBuffers& buffers, cudaStream_t stream);
// Finds the blocks, once section_dev says where they begin. Sets bits of *error_dev where the
// lengths do not fit; everything does nothing where one is set before.
Status FindCodeBlocks(const CodeList& list, const CodeReadBuffers& buffers, uint32_t bits,
                      uint32_t* error_dev, cudaStream_t stream);
// Follows the notes of all tiles, which code_walk.h writes. Sets bits of *error_dev where a block
// has not all of its items.
Status FollowWalk(const CodeList& list, const CodeReadBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, cudaStream_t stream);
// Sets bits of *error_dev unless the last block, once it is decoded, ends the section.
Status CheckCodeSectionEnd(const CodeList& list, const CodeReadBuffers& buffers, uint32_t bits,
                           uint32_t* error_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODE_BLOCKS_H_
