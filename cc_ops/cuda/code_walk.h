// The kernels of code blocks that read or write codes: templates over the kind of code.
//
// To write, `Codes` is a class with
//   Codes(Source, list)                               Source: any kernel argument
//   ItemCode At(const uint32_t* items, uint64_t i)    the code of an item of the list
// and for WriteCodes
//   void WriteHead(const uint32_t* items, uint64_t block, bool is_last, uint64_t begin,
//                  uint32_t* words)                   writes the block's part of what precedes all
//                                                     lengths; the list begins at byte `begin`
// and to read, one with
//   Codes(Source, list)
//   uint32_t Length(uint64_t window)                  of the code at bit 0, at least 1
#ifndef TFCOMPRESS_CUDA_CODE_WALK_H_
#define TFCOMPRESS_CUDA_CODE_WALK_H_

#include <cstdint>

#include "cuda/binary_search.h"
#include "cuda/bit_words.h"
#include "cuda/code_blocks.h"
#include "cuda/launch.h"
#include "cuda/load_volatile.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {

inline constexpr uint32_t kCodeBlockTiles = kCodeBlockItems / kTileElements;
static_assert(kMaxCodeBits <= kMaxRowCodeBits);

// Maps blocks to slots: the blocks of a list have consecutive slots; slots between lists may be
// empty.
class ListBlocks {
 public:
  __device__ ListBlocks(const KeyLists& lists, uint64_t num_slots)
      : lists_(lists), num_slots_(num_slots) {}

  // An upper bound of the slots of the lists before: each has at most one block that is not full.
  __device__ uint64_t FirstSlot(uint32_t list) const {
    return list + lists_.BeginOf(list) / kCodeBlockItems;
  }
  __device__ uint64_t EndSlot(uint32_t list) const {
    return list + 1 < lists_.num_lists ? FirstSlot(list + 1) : num_slots_;
  }
  __device__ uint32_t ListOf(uint64_t slot) const {
    const auto begins_after = [&](uint64_t list) {
      return FirstSlot(static_cast<uint32_t>(list)) > slot;
    };
    return static_cast<uint32_t>(FirstAfter(1, lists_.num_lists, begins_after) - 1);
  }

 private:
  KeyLists lists_;
  uint64_t num_slots_;
};

// ---- Writing ------------------------------------------------------------------------------------

struct ItemCode {
  uint64_t bits;
  uint32_t num_bits;  // At most kMaxCodeBits.
};

// Counts the bits of the tiles of all lists.
template <typename Codes, typename Count>
__global__ void MeasureCodesKernel(const typename Codes::Source source, KeyLists lists,
                                   uint64_t max_tiles, const uint32_t* items, Count* tile_bits) {
  for (uint64_t t = ThisWarp(); t < max_tiles; t += NumWarps()) {
    const KeyTile tile = lists.At(t);
    const Codes codes(source, tile.list);
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile.FirstKey() + row + ThisLane();
      if (i < tile.size) own += codes.At(items + tile.begin, i).num_bits;
    }
    own = SumOfLanes(own);
    if (ThisLane() == 0) tile_bits[t] = own;
  }
}

// Writes the codes of a tile from bit `begin` of the words on. `row_words` is shared memory of this
// warp, kRowWords words.
template <typename Codes>
__device__ void WriteTile(const Codes& codes, const KeyTile& tile, const uint32_t* items,
                          uint64_t begin, uint32_t* row_words, uint32_t* words) {
  for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
    const uint64_t i = tile.FirstKey() + row + ThisLane();
    const ItemCode code = i < tile.size ? codes.At(items + tile.begin, i) : ItemCode{0, 0};
    begin += WriteRow(code.bits, code.num_bits, begin, row_words, words);
  }
}

// Returns the bit at which the codes of tile `t` (numbered over all lists) begin, in a list that
// begins at a whole byte. Called by all lanes. At the first tile of a block, writes the length of
// the block, unless it is the last one.
__device__ inline uint64_t BeginTile(const ListBlocks& blocks, const CodeWriteBuffers& buffers,
                                     const KeyTile& tile, uint64_t t, uint64_t list_begin) {
  const uint64_t* ends = buffers.ends_dev;
  const uint64_t lengths_begin = list_begin + buffers.sizes_dev[tile.list].blocks_begin;
  const uint64_t num_others = NumCodeBlocks(tile.size) - 1;
  const uint64_t block = tile.tile / kCodeBlockTiles;
  const uint64_t first_slot = blocks.FirstSlot(tile.list);
  const uint64_t slot = first_slot + block;
  if (tile.tile % kCodeBlockTiles == 0 && block < num_others && ThisLane() == 0)
    OrBits(buffers.words_dev, 8 * (lengths_begin + 4 * block), ends[slot + 1] - ends[slot]);
  const uint64_t first_byte = lengths_begin + 4 * num_others + ends[slot] - ends[first_slot];
  return 8 * first_byte + buffers.tile_begins_dev[t];
}

template <typename Codes>
__global__ void WriteCodesKernel(const typename Codes::Source source, KeyLists lists,
                                 CodeWriteBuffers buffers, const uint32_t* items,
                                 const uint64_t* begins) {
  __shared__ uint32_t rows[kBlockWarps][kRowWords];
  uint32_t* row_words = rows[threadIdx.x / kWarpThreads];
  const ListBlocks blocks(lists, buffers.num_slots);
  for (uint64_t t = ThisWarp(); t < buffers.max_tiles; t += NumWarps()) {
    const KeyTile tile = lists.At(t);
    if (!tile.exists()) continue;
    const Codes codes(source, tile.list);
    const uint64_t list_begin = begins == nullptr ? 0 : begins[tile.list];
    if (tile.tile % kCodeBlockTiles == 0 && ThisLane() == 0) {
      const uint64_t block = tile.tile / kCodeBlockTiles;
      const bool is_last = block + 1 == NumCodeBlocks(tile.size);
      codes.WriteHead(items + tile.begin, block, is_last, list_begin, buffers.words_dev);
    }
    WriteTile(codes, tile, items, BeginTile(blocks, buffers, tile, t, list_begin), row_words,
              buffers.words_dev);
  }
}

template <typename Codes, typename Count>
Status MeasureCodes(const typename Codes::Source& source, const KeyLists& lists, uint64_t max_tiles,
                    const uint32_t* items_dev, Count* tile_bits_dev, cudaStream_t stream) {
  return LaunchWarps("measure codes", MeasureCodesKernel<Codes, Count>, max_tiles, stream, source,
                     lists, max_tiles, items_dev, tile_bits_dev);
}

// Writes lists that have been placed, to words that are zero: at bytes begins_dev, or at the front
// if that is null.
template <typename Codes>
Status WriteCodes(const typename Codes::Source& source, const KeyLists& lists,
                  const CodeWriteBuffers& buffers, const uint32_t* items_dev,
                  const uint64_t* begins_dev, cudaStream_t stream) {
  return LaunchWarps("write codes", WriteCodesKernel<Codes>, buffers.max_tiles, stream, source,
                     lists, buffers, items_dev, begins_dev);
}

// ---- Reading ------------------------------------------------------------------------------------

// Reads the error once for the warp: all lanes see the same, even if another warp sets it
// meanwhile.
__device__ inline bool HasError(const uint32_t* error) {
  return __any_sync(kAllLanes, LoadVolatile(error) != 0) != 0;
}

// Upper bound of the end of a stream, from its items and the longest code, and not after `end`.
__device__ inline uint64_t LongestEnd(const CodeStream& stream, uint64_t end) {
  const uint64_t longest = stream.begin + (stream.num_items * stream.max_code_bits + 7) / 8;
  return longest < end ? longest : end;
}

// A part of the bits of a stream.
struct WalkTile {
  uint64_t stream;
  uint64_t begin;  // Bit in the words, as is the end.
  uint64_t end;    // If not after begin, the stream has no such tile.

  __device__ bool exists() const { return begin < end; }
};

// Maps streams to their tiles.
class StreamMap {
 public:
  __device__ StreamMap(const CodeStream* streams, uint64_t num_streams)
      : streams_(streams), num_streams_(num_streams) {}

  // Number of the first tile of a stream. Numbers skipped before it belong to no tile.
  __device__ uint64_t FirstTile(uint64_t stream) const {
    return streams_[stream].begin * 8 / kWalkTileBits + stream;
  }
  __device__ uint64_t NumTiles(uint64_t stream) const {
    return CeilDiv((streams_[stream].end - streams_[stream].begin) * 8, kWalkTileBits);
  }
  __device__ WalkTile At(uint64_t tile) const {
    const uint64_t stream =
        FirstAfter(1, num_streams_, [&](uint64_t s) { return FirstTile(s) > tile; }) - 1;
    // No tile is before the first stream.
    if (tile < FirstTile(stream)) return {0, 0, 0};
    return TileOf(stream, tile);
  }
  __device__ WalkTile TileOf(uint64_t stream, uint64_t tile) const {
    const uint64_t begin = streams_[stream].begin * 8 + (tile - FirstTile(stream)) * kWalkTileBits;
    const uint64_t end = streams_[stream].end * 8;
    return {stream, begin, begin + kWalkTileBits < end ? begin + kWalkTileBits : end};
  }

 private:
  const CodeStream* streams_;
  uint64_t num_streams_;
};

// The result of walking a tile: the bit of the next tile at which the walk arrived, and the number
// of codes.
struct WalkNote {
  __device__ static uint32_t Of(uint64_t bit, uint32_t num_codes) {
    return static_cast<uint32_t>(bit) | num_codes << 8;
  }
  __device__ static uint32_t Bit(uint32_t note) { return note & 0xFF; }
  __device__ static uint32_t NumCodes(uint32_t note) { return note >> 8; }
};
static_assert(kMaxCodeBits <= 0xFF);

// One lane for each bit at which the first code of a tile may begin.
template <typename Codes>
__global__ void WalkTilesKernel(const typename Codes::Source source, CodeExtent extent,
                                const CodeStream* streams, const uint32_t* error,
                                const uint32_t* words, uint32_t* notes) {
  if (HasError(error)) return;
  const StreamMap map(streams, extent.num_streams);
  for (uint64_t i = ThisWarp(); i < extent.num_tiles(); i += NumWarps()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    const CodeStream& stream = streams[tile.stream];
    const Codes codes(source, stream.list);
    for (uint32_t bit = ThisLane(); bit < stream.max_code_bits; bit += kWarpThreads) {
      uint64_t position = tile.begin + bit;
      uint32_t num_codes = 0;
      for (; position < tile.end; ++num_codes) position += codes.Length(PeekBits(words, position));
      notes[i * kMaxCodeBits + bit] = WalkNote::Of(position - tile.end, num_codes);
    }
  }
}

template <typename Codes>
Status WalkTiles(const typename Codes::Source& source, const CodeExtent& extent,
                 const CodeReadBuffers& buffers, const uint32_t* error_dev, cudaStream_t stream) {
  return LaunchWarps("walk tiles", WalkTilesKernel<Codes>, extent.max_used_tiles(), stream, source,
                     extent, buffers.streams_dev, error_dev, buffers.words_dev, buffers.notes_dev);
}

// Whether the stream ends with its last code, which ends at bit `position`, and the padding bits of
// its last byte are zero. Notes the end of an open stream.
__device__ inline bool EndsStream(const CodeStream& stream, uint64_t position,
                                  const uint32_t* words, uint64_t* list_ends) {
  const uint64_t end = (position + 7) / 8;
  if (end > stream.end || !EndsItsByte(words, position)) return false;
  if (!stream.is_open) return end == stream.end;
  list_ends[stream.list] = end;
  return true;
}

// Decodes the codes of a tile on one thread: decode(i, window) takes item i of the stream, whose
// code begins at bit 0 of the window, and returns its length. Returns false if this is the last
// tile and the stream does not end with its last code.
template <typename Decode>
__device__ bool DecodeTile(const CodeStream& stream, const WalkTile& tile, const WalkStart& start,
                           const uint32_t* words, uint64_t* list_ends, const Decode& decode) {
  uint64_t i = start.first_item;
  if (i >= stream.num_items) return true;
  uint64_t position = tile.begin + start.bit;
  for (; i < stream.num_items && position < tile.end; ++i)
    position += decode(i, PeekBits(words, position));
  return i < stream.num_items || EndsStream(stream, position, words, list_ends);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODE_WALK_H_
