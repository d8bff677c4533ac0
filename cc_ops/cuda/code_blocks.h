// Codes of different lengths on the device, in code blocks (FORMAT.md): of each list, every 65536
// codes are a block. Sections begin at any byte; they are written to, and read from, aligned words.
//
// Writing: the bits of tiles of 1024 items are counted and summed, so that every lane knows where
// its code goes.
//
// Reading: where a code begins is only known from the one before. But how long a code is, its bits
// tell, and it is short. So a stream of codes is cut into tiles of bits, and for each bit of a tile
// at which its first code may begin, a lane walks through it and notes in which bit of the next
// tile it arrives, and with how many codes. A warp then follows these notes from the first tile of
// a stream to its last, and what is left is to decode each tile from where it truly begins.
#ifndef TFCOMPRESS_CUDA_CODE_BLOCKS_H_
#define TFCOMPRESS_CUDA_CODE_BLOCKS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/entropy/code_block_size.h"
#include "core/status.h"
#include "cuda/key_lists.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

inline constexpr uint32_t kCodeBlockItems = static_cast<uint32_t>(kCodeBlock);

// At least as many as all lists have blocks, each of which may have one that is not full.
TFC_HOST_DEVICE inline uint64_t NumBlockSlots(uint32_t num_lists, uint64_t num_items) {
  return num_lists + num_items / kCodeBlockItems;
}

// ---- Writing ------------------------------------------------------------------------------------

// What is written of a list.
struct CodeListSize {
  uint64_t blocks_begin;  // Bytes before the lengths of the blocks,
  uint64_t num_bytes;     // and all.
};

// For lists of up to max_items items together, in sections of up to max_bytes bytes.
struct CodeWriteBuffers {
  uint32_t max_items;
  uint64_t max_tiles;  // Of the lists.
  uint64_t num_slots;  // For blocks.
  uint32_t* words_dev;
  CodeListSize* sizes_dev;    // Of each list.
  uint32_t* tile_begins_dev;  // Bits of each tile of items, then those before it in its block.
  uint64_t* ends_dev;         // Bytes before each block; the last one is their sum.
  DeviceBuffer scan_storage;
};

Status TakeCodeWriteBuffers(uint32_t num_lists, uint32_t max_items, uint64_t max_bytes,
                            Workspace* workspace, CodeWriteBuffers* buffers);

// With the bits of tiles in place: finds where tiles and blocks go, and how many bytes a list takes
// besides the blocks_begin ones before its blocks.
Status PlaceCodeBlocks(const KeyLists& lists, const CodeWriteBuffers& buffers, cudaStream_t stream);

// A section of *num_bytes_dev bytes; nothing is done where *k_dev is 0 by now.
struct SectionWords {
  uint32_t* words_dev;
  const uint64_t* num_bytes_dev;
  const uint32_t* k_dev;
};

// Clears the words, before code_walk.h writes to them, and stores their bytes. The section is about
// as long as `max_items` words.
Status ClearSection(const SectionWords& words, uint64_t max_items, cudaStream_t stream);
Status StoreSection(const SectionWords& words, uint64_t max_items, unsigned char* section_dev,
                    cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

inline constexpr uint32_t kWalkTileBits = 1024;
// The longest code: that many bits of a tile may be the first one's.
inline constexpr uint32_t kMaxCodeBits = 48;

// What is known of a list before its blocks are read. Lists without items have it, too.
struct CodeHead {
  uint64_t blocks_begin;   // Where the lengths of the blocks stand in the words, in bytes,
  uint64_t end;            // and where the last block ends at most: not after the next list.
  uint32_t max_code_bits;  // At most kMaxCodeBits where tiles are walked.
};

// Codes that are read in a row. In the words, streams stand one after the other.
struct CodeStream {
  uint64_t begin;       // In bytes,
  uint64_t end;         // at most, where it is open.
  uint64_t first_item;  // Of the items of all lists.
  uint64_t num_items;   // May be 0.
  uint32_t list;
  uint32_t block;  // Of the list.
  bool is_open;    // It may end before its end: where, list_ends_dev of the buffers says then.
  uint32_t max_code_bits;
};

// Where the true first code of a tile begins.
struct WalkStart {
  uint64_t first_item;  // In its stream; the number of its items where a tile has none.
  uint32_t bit;         // Of the tile.
};

// What decides how much is launched.
struct CodeExtent {
  // Numbers for all tiles: each stream begins with one of its own.
  TFC_HOST_DEVICE uint64_t num_tiles() const {
    return num_bytes * 8 / kWalkTileBits + num_streams + 1;
  }
  // At most so many streams have items, and so many tiles are part of one.
  uint64_t max_used_streams() const { return std::min(num_streams, num_items); }
  uint64_t max_used_tiles() const { return num_bytes * 8 / kWalkTileBits + max_used_streams() + 1; }
  // Becomes one that has room for both.
  void Cover(const CodeExtent& other) {
    num_streams = std::max(num_streams, other.num_streams);
    num_items = std::max(num_items, other.num_items);
    num_bytes = std::max(num_bytes, other.num_bytes);
  }

  uint64_t num_streams;
  uint64_t num_items;
  uint64_t num_bytes;  // Of the section.
};

inline CodeExtent ExtentOf(uint32_t num_lists, uint32_t num_items, uint64_t num_bytes) {
  return {NumBlockSlots(num_lists, num_items), num_items, num_bytes};
}

struct CodeReadBuffers {
  uint32_t* words_dev;
  CodeStream* streams_dev;
  uint32_t* notes_dev;      // kMaxCodeBits for each tile.
  WalkStart* starts_dev;    // Of each tile.
  uint64_t* list_ends_dev;  // Where the open stream of each list ends; set by reading it.
};

// For up to num_lists lists in sections of up to that extent.
Status TakeCodeReadBuffers(uint32_t num_lists, const CodeExtent& max_extent, Workspace* workspace,
                           CodeReadBuffers* buffers);

// Enough words for a section, and for looking ahead at its end.
uint64_t NumSectionWords(uint64_t num_bytes);
// Copies a section to the words.
Status LoadSection(const unsigned char* section_dev, uint64_t num_bytes, uint32_t* words_dev,
                   cudaStream_t stream);
// Makes the blocks of all lists, of which heads_dev tells, streams. Sets bits of *error_dev where
// the lengths do not fit; everything does nothing where one is set before.
Status FindCodeBlocks(const KeyLists& lists, const CodeHead* heads_dev, const CodeExtent& extent,
                      const uint32_t* words_dev, uint32_t bits, uint32_t* error_dev,
                      CodeStream* streams_dev, cudaStream_t stream);
// Follows the notes of all tiles, which code_walk.h writes. Sets bits of *error_dev where a stream
// has not all of its items.
Status FollowWalk(const CodeExtent& extent, const CodeReadBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, cudaStream_t stream);
// Sets bits of *error_dev unless the last stream of the only list, once it is decoded, ends the
// section.
Status CheckSectionEnd(uint64_t num_bytes, const CodeReadBuffers& buffers, uint32_t bits,
                       uint32_t* error_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODE_BLOCKS_H_
