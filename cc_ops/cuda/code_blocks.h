// Codes of different lengths on the device, in code blocks (FORMAT.md): every 65536 codes of a list
// are a block. Sections begin at any byte; they are written to, and read from, aligned words.
//
// Writing: the bits of tiles of 1024 items are counted and summed, which gives every lane the
// position of its code.
//
// Reading: a code begins where the code before it ends, but its bits tell its length, and codes are
// short. A stream of codes is cut into tiles of bits. For each bit of a tile at which its first
// code may begin, a lane walks through the tile and notes the bit of the next tile at which it
// arrives, and the number of codes. A block follows these notes from the first tile of a stream to
// the last. Each tile is then decoded from its true beginning.
#ifndef TFCOMPRESS_CUDA_CODE_BLOCKS_H_
#define TFCOMPRESS_CUDA_CODE_BLOCKS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/entropy/bit_stream.h"
#include "core/status.h"
#include "cuda/key_lists.h"
#include "cuda/parts.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

inline constexpr uint32_t kCodeBlockItems = static_cast<uint32_t>(kCodeBlock);

// Upper bound of the blocks of all lists: each list may have one block that is not full.
TFC_HOST_DEVICE inline uint64_t NumBlockSlots(uint32_t num_lists, uint64_t num_items) {
  return num_lists + num_items / kCodeBlockItems;
}

// ---- Writing ------------------------------------------------------------------------------------

// Length of the code of a list.
struct CodeListSize {
  uint64_t blocks_begin;  // Bytes before the lengths of the blocks.
  uint64_t num_bytes;     // All bytes.
};

// Buffers for lists of up to max_items items together, in sections of up to max_bytes bytes.
struct CodeWriteBuffers {
  uint64_t max_tiles;  // Tiles of all lists.
  uint64_t num_slots;  // Slots for blocks.
  uint32_t* words_dev;
  CodeListSize* sizes_dev;  // One for each list.
  uint32_t*
      tile_begins_dev;  // Bits of each tile of items; after the scan, bits before it in its block.
  uint64_t* ends_dev;   // Bytes before each block; the last one is their sum.
};

void TakeCodeWriteBuffers(uint32_t num_lists, uint32_t max_items, uint64_t max_bytes,
                          Workspace* workspace, CodeWriteBuffers* buffers);

// Finds the positions of tiles and blocks from the bits of the tiles, and the number of bytes of
// each list in addition to the blocks_begin bytes before its blocks.
Status PlaceCodeBlocks(const KeyLists& lists, const CodeWriteBuffers& buffers, cudaStream_t stream);

// Clears the words of the first sections of frames before code_walk.h writes to them; stores their
// bytes afterwards. Nothing is done for frames without elements.
Status ClearSections(const Parts<EncodedFrame>& frames, cudaStream_t stream);
Status StoreSections(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

inline constexpr uint32_t kWalkTileBits = 512;
// Bits of the longest code: the first code of a tile begins at one of that many bits.
inline constexpr uint32_t kMaxCodeBits = 48;

// Facts of a list that are known before its blocks are read. Lists without items have one, too.
struct CodeHead {
  uint64_t blocks_begin;   // Position of the lengths of the blocks in the words, in bytes.
  uint64_t end;            // Upper bound of the end of the last block: where the next list begins.
  uint32_t max_code_bits;  // At most kMaxCodeBits if tiles are walked.
};

// Codes that are read one after the other. Streams lie end to end in the words.
struct CodeStream {
  uint64_t begin;       // In bytes.
  uint64_t end;         // In bytes; an upper bound if the stream is open.
  uint64_t first_item;  // Number of the first item among those of all lists.
  uint64_t num_items;   // May be 0.
  uint32_t list;
  uint32_t block;  // Number of the block in its list.
  bool is_open;    // May end before `end`; reading sets list_ends_dev of the buffers to where.
  uint32_t max_code_bits;
};

// The first code of a tile.
struct WalkStart {
  uint64_t first_item;  // Item number in the stream; the stream's number of items if the tile has
                        // no code.
  uint32_t bit;         // Bit of the tile at which the code begins.
};

// Sizes from which the launches follow.
struct CodeExtent {
  // Upper bound of tile numbers: each stream begins with a new number.
  TFC_HOST_DEVICE uint64_t num_tiles() const {
    return num_bytes * 8 / kWalkTileBits + num_streams + 1;
  }
  // Upper bounds of the streams that have items, and of the tiles that are part of a stream.
  uint64_t max_used_streams() const { return std::min(num_streams, num_items); }
  uint64_t max_used_tiles() const { return num_bytes * 8 / kWalkTileBits + max_used_streams() + 1; }
  uint64_t num_streams;
  uint64_t num_items;
  uint64_t num_bytes;  // Length of the section.
};

inline CodeExtent ExtentOf(uint32_t num_lists, uint32_t num_items, uint64_t num_bytes) {
  return {NumBlockSlots(num_lists, num_items), num_items, num_bytes};
}

struct CodeReadBuffers {
  uint32_t* words_dev;
  CodeStream* streams_dev;
  uint32_t* notes_dev;      // kMaxCodeBits for each tile.
  WalkStart* starts_dev;    // One for each tile.
  uint64_t* list_ends_dev;  // End of the open stream of each list; set by reading it.
};

// Takes buffers for up to num_lists lists in sections of up to that extent.
void TakeCodeReadBuffers(uint32_t num_lists, const CodeExtent& max_extent, Workspace* workspace,
                         CodeReadBuffers* buffers);

// Words for a section and for reading ahead at its end.
uint64_t NumSectionWords(uint64_t num_bytes);
// Copies sections to the words, from wherever they are.
Status LoadSections(const CodeSections& sections, uint32_t num_lists, uint32_t* words_dev,
                    cudaStream_t stream);
// Makes the blocks of all lists streams, given their heads_dev. Sets bits of *error_dev if the
// lengths do not fit. This and what follows does nothing once an error is set.
Status FindCodeBlocks(const KeyLists& lists, const CodeHead* heads_dev, const CodeExtent& extent,
                      const uint32_t* words_dev, uint32_t bits, uint32_t* error_dev,
                      CodeStream* streams_dev, cudaStream_t stream);
// Follows the notes of all tiles, which code_walk.h writes. Sets bits of *error_dev if a stream
// lacks items.
Status FollowWalk(const CodeExtent& extent, const CodeReadBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, cudaStream_t stream);
// Sets bits of *error_dev unless the part of each list ends with its last stream. To be called
// after decoding.
Status CheckSectionEnds(const KeyLists& lists, const CodeSections& sections,
                        const CodeReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                        cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODE_BLOCKS_H_
