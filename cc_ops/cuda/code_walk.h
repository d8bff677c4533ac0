// The kernels of code blocks that look at codes: templates over what codes they are.
//
// To write, `Codes` is a class with
//   Codes(Source)                                     from something that a kernel can be given
//   ItemCode At(const uint32_t* items, uint64_t i)    the code of an item
//   void WriteHead(const uint32_t* items, uint64_t block, bool is_last, uint32_t* words)
//                                                     what stands before all lengths, of a block
// and to read, one with
//   Codes(Source)
//   uint32_t Length(uint64_t window)                  of the code at bit 0, at least 1
#ifndef TFCOMPRESS_CUDA_CODE_WALK_H_
#define TFCOMPRESS_CUDA_CODE_WALK_H_

#include <cstdint>

#include "cuda/binary_search.h"
#include "cuda/bit_words.h"
#include "cuda/code_blocks.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {

inline constexpr uint32_t kCodeBlockTiles = kCodeBlockItems / kTileElements;
static_assert(kMaxCodeBits <= kMaxRowCodeBits);

// ---- Writing ------------------------------------------------------------------------------------

struct ItemCode {
  uint64_t bits;
  uint32_t num_bits;  // At most kMaxCodeBits.
};

template <typename Codes>
__global__ void MeasureCodesKernel(const typename Codes::Source source, const uint32_t* items,
                                   const uint32_t* num_items, uint32_t* tile_bits) {
  const Codes codes(source);
  const uint64_t count = *num_items;
  for (uint64_t tile = ThisWarp(); tile < NumTiles(count); tile += NumWarps()) {
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      if (i < count) own += codes.At(items, i).num_bits;
    }
    own = SumOfLanes(own);
    if (ThisLane() == 0) tile_bits[tile] = own;
  }
}

template <typename Codes>
__global__ void WriteCodesKernel(const typename Codes::Source source, const uint32_t* items,
                                 const uint32_t* num_items, const CodeSectionSize* size,
                                 const uint32_t* tile_begins, const uint64_t* ends,
                                 uint32_t* words) {
  __shared__ uint32_t rows[kBlockWarps][kRowWords];
  uint32_t* row_words = rows[threadIdx.x / kWarpThreads];
  const Codes codes(source);
  const uint64_t count = *num_items;
  if (count == 0) return;
  const uint64_t first_byte = size->blocks_begin + 4 * (NumCodeBlocks(count) - 1);
  for (uint64_t tile = ThisWarp(); tile < NumTiles(count); tile += NumWarps()) {
    const uint64_t block = tile / kCodeBlockTiles;
    if (tile % kCodeBlockTiles == 0 && ThisLane() == 0) {
      const bool is_last = block + 1 == NumCodeBlocks(count);
      codes.WriteHead(items, block, is_last, words);
      if (!is_last)
        OrBits(words, 8 * (size->blocks_begin + 4 * block), ends[block + 1] - ends[block]);
    }
    uint64_t begin = 8 * (first_byte + ends[block]) + tile_begins[tile];
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      const ItemCode code = i < count ? codes.At(items, i) : ItemCode{0, 0};
      begin += WriteRow(code.bits, code.num_bits, begin, row_words, words);
    }
  }
}

template <typename Codes>
Status MeasureCodes(const typename Codes::Source& source, const uint32_t* items_dev,
                    const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                    cudaStream_t stream) {
  return LaunchWarps("measure codes", MeasureCodesKernel<Codes>, NumTiles(buffers.max_items),
                     stream, source, items_dev, num_items_dev, buffers.tile_begins_dev);
}

template <typename Codes>
Status WriteCodes(const typename Codes::Source& source, const uint32_t* items_dev,
                  const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                  cudaStream_t stream) {
  return LaunchWarps("write codes", WriteCodesKernel<Codes>, NumTiles(buffers.max_items), stream,
                     source, items_dev, num_items_dev, buffers.size_dev, buffers.tile_begins_dev,
                     buffers.ends_dev, buffers.words_dev);
}

// ---- Reading ------------------------------------------------------------------------------------

// The same in all lanes, also where another warp sets an error meanwhile.
__device__ inline bool HasError(const uint32_t* error) {
  return __any_sync(kAllLanes, *error != 0) != 0;
}

// A part of the bits of a block.
struct WalkTile {
  uint64_t block;
  uint64_t begin;  // In the words, as is the end.
  uint64_t end;    // Not after begin: the block has no such tile.

  __device__ bool exists() const { return begin < end; }
};

// Where blocks and tiles lie. Lengths may be anything: all bits are inside the section, and where
// the lengths do not fit, the last block is empty.
class BlockMap {
 public:
  __device__ BlockMap(const CodeList& list, const CodeSection* section, const uint64_t* begins)
      : num_items_(list.num_items),
        num_blocks_(NumCodeBlocks(list.num_items)),
        num_bytes_(list.num_bytes),
        first_byte_(section->blocks_begin + 4 * (num_blocks_ - 1)),
        max_code_bits_(section->max_code_bits),
        begins_(begins) {}

  __device__ uint64_t num_blocks() const { return num_blocks_; }
  __device__ uint32_t NumItems(uint64_t block) const {
    return block + 1 < num_blocks_ ? kCodeBlockItems
                                   : static_cast<uint32_t>(num_items_ - block * kCodeBlockItems);
  }
  // In bytes.
  __device__ uint64_t BeginOf(uint64_t block) const {
    const uint64_t begin = first_byte_ + begins_[block];
    return begin < num_bytes_ ? begin : num_bytes_;
  }
  // For the last block, where it ends at most.
  __device__ uint64_t EndOf(uint64_t block) const {
    if (block + 1 < num_blocks_) return BeginOf(block + 1);
    const uint64_t end =
        BeginOf(block) + (static_cast<uint64_t>(NumItems(block)) * max_code_bits_ + 7) / 8;
    return end < num_bytes_ ? end : num_bytes_;
  }
  // Number of the first tile of a block. Numbers that are left out before it belong to no tile.
  __device__ uint64_t FirstTile(uint64_t block) const {
    return (BeginOf(block) - BeginOf(0)) * 8 / kWalkTileBits + block;
  }
  __device__ uint64_t NumTiles(uint64_t block) const {
    return CeilDiv((EndOf(block) - BeginOf(block)) * 8, kWalkTileBits);
  }
  __device__ WalkTile TileOf(uint64_t block, uint64_t tile) const {
    const uint64_t begin = BeginOf(block) * 8 + (tile - FirstTile(block)) * kWalkTileBits;
    const uint64_t block_end = EndOf(block) * 8;
    return {block, begin, begin + kWalkTileBits < block_end ? begin + kWalkTileBits : block_end};
  }
  __device__ WalkTile At(uint64_t tile) const {
    const uint64_t next =
        FirstAfter(1, num_blocks_, [&](uint64_t block) { return FirstTile(block) > tile; });
    return TileOf(next - 1, tile);
  }

 private:
  uint32_t num_items_;
  uint64_t num_blocks_;
  uint64_t num_bytes_;
  uint64_t first_byte_;
  uint32_t max_code_bits_;
  const uint64_t* begins_;
};

// What a lane found out about a tile: in which bit of the next tile it arrived, and the codes.
struct WalkNote {
  __device__ static uint32_t Of(uint64_t bit, uint32_t num_codes) {
    return static_cast<uint32_t>(bit) | num_codes << 8;
  }
  __device__ static uint32_t Bit(uint32_t note) { return note & 0xFF; }
  __device__ static uint32_t NumCodes(uint32_t note) { return note >> 8; }
};
static_assert(kMaxCodeBits <= 0xFF);

// A lane for each bit at which the first code of a tile may begin.
template <typename Codes>
__global__ void WalkTilesKernel(const typename Codes::Source source, CodeList list,
                                const CodeSection* section, const uint64_t* begins,
                                const uint32_t* error, const uint32_t* words, uint32_t* notes) {
  if (HasError(error)) return;
  const Codes codes(source);
  const BlockMap map(list, section, begins);
  const uint64_t num_tiles = NumWalkTiles(list.num_items, list.num_bytes);
  for (uint64_t i = ThisWarp(); i < num_tiles; i += NumWarps()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    for (uint32_t bit = ThisLane(); bit < section->max_code_bits; bit += kWarpThreads) {
      uint64_t position = tile.begin + bit;
      uint32_t num_codes = 0;
      for (; position < tile.end; ++num_codes) position += codes.Length(PeekBits(words, position));
      notes[i * kMaxCodeBits + bit] = WalkNote::Of(position - tile.end, num_codes);
    }
  }
}

template <typename Codes>
Status WalkTiles(const typename Codes::Source& source, const CodeList& list,
                 const CodeReadBuffers& buffers, const uint32_t* error_dev, cudaStream_t stream) {
  return LaunchWarps("walk tiles", WalkTilesKernel<Codes>,
                     NumWalkTiles(list.num_items, list.num_bytes), stream, source, list,
                     buffers.section_dev, buffers.begins_dev, error_dev, buffers.words_dev,
                     buffers.notes_dev);
}

// Whether the last code of a block, which ends at bit `position`, ends the block, and what fills
// its last byte up is zero. Of the last block, notes where that is.
__device__ inline bool EndsBlock(const BlockMap& map, uint64_t block, uint64_t position,
                                 const uint32_t* words, CodeSection* section) {
  const uint64_t end = (position + 7) / 8;
  if (end > map.EndOf(block) || !EndsItsByte(words, position)) return false;
  if (block + 1 < map.num_blocks()) return end == map.EndOf(block);
  section->num_bytes = end;
  return true;
}

// Decodes the codes of a tile, by one thread: decode(i, window) takes item i of the block, whose
// code begins at bit 0 of the window, and returns its length. False where the tile ends the block
// and the block does not end there.
template <typename Decode>
__device__ bool DecodeTile(const BlockMap& map, const WalkTile& tile, const WalkStart& start,
                           const uint32_t* words, CodeSection* section, const Decode& decode) {
  const uint32_t num_items = map.NumItems(tile.block);
  uint32_t i = start.first_item;
  if (i >= num_items) return true;
  uint64_t position = tile.begin + start.bit;
  for (; i < num_items && position < tile.end; ++i)
    position += decode(i, PeekBits(words, position));
  return i < num_items || EndsBlock(map, tile.block, position, words, section);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODE_WALK_H_
