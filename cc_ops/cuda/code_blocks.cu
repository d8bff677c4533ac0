#include <algorithm>

#include "core/frame.h"
#include "cuda/code_walk.h"
#include "cuda/launch_frames.h"
#include "cuda/load_volatile.h"
#include "cuda/raw_bytes.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Writing ------------------------------------------------------------------------------------

// One warp per block: a block has few tiles.
__global__ void PlaceTilesKernel(KeyLists lists, uint64_t num_slots, uint32_t* tiles,
                                 uint64_t* num_bytes) {
  const ListBlocks blocks(lists, num_slots);
  for (uint64_t slot = ThisWarp(); slot < num_slots; slot += NumWarps()) {
    const uint32_t list = blocks.ListOf(slot);
    const uint64_t first =
        lists.FirstTileOf(list) + (slot - blocks.FirstSlot(list)) * kCodeBlockTiles;
    const uint64_t end = lists.EndTileOf(list);
    uint32_t begin = 0;
    for (uint32_t row = 0; row < kCodeBlockTiles; row += kWarpThreads) {
      const uint64_t tile = first + row + ThisLane();
      const uint32_t own = tile < end ? tiles[tile] : 0;
      const uint32_t up_to_own = InclusiveSum(own);
      if (tile < end) tiles[tile] = begin + up_to_own - own;
      begin += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
    if (ThisLane() == 0) num_bytes[slot] = (begin + 7) / 8;
  }
}

__global__ void SizeListsKernel(KeyLists lists, uint64_t num_slots, const uint64_t* ends,
                                CodeListSize* sizes) {
  const ListBlocks blocks(lists, num_slots);
  for (uint64_t i = ThisThread(); i < lists.num_lists; i += NumThreads()) {
    const auto list = static_cast<uint32_t>(i);
    const uint32_t size = lists.SizeOf(list);
    const uint64_t num_others = size == 0 ? 0 : NumCodeBlocks(size) - 1;
    sizes[list].num_bytes = sizes[list].blocks_begin + 4 * num_others + ends[blocks.EndSlot(list)] -
                            ends[blocks.FirstSlot(list)];
  }
}

// The words of a section, and where their bytes belong.
struct SectionWords {
  uint32_t* words_dev;
  const uint64_t* num_bytes_dev;
  const uint32_t* k_dev;
  unsigned char* section_dev;

  TFC_HOST_DEVICE static SectionWords Of(const EncodedFrame& frame) {
    return {frame.code_words_dev, frame.lengths.num_payload_bytes_dev, &frame.state_dev->k,
            frame.data_dev + kFrameHeaderBytes};
  }
};

template <typename Source>
__global__ void ClearSectionKernel(Source source) {
  const SectionWords section = source.Get();
  if (*section.k_dev == 0) return;
  const uint64_t num_words = CeilDiv(*section.num_bytes_dev, 4);
  for (uint64_t i = ThisThread(); i < num_words; i += NumThreads()) section.words_dev[i] = 0;
}

template <typename Source>
__global__ void StoreSectionKernel(Source source) {
  const SectionWords section = source.Get();
  if (*section.k_dev != 0)
    StoreBytes(section.words_dev, *section.num_bytes_dev, section.section_dev);
}

// ---- Reading ------------------------------------------------------------------------------------

// The part of each list; padding after the last one.
__global__ void LoadSectionsKernel(CodeSections sections, uint32_t num_lists, uint32_t* words) {
  const uint32_t list = blockIdx.y;
  const uint64_t num_bytes = sections.NumBytesOf(list);
  const uint64_t num_words = CeilDiv(num_bytes, 4) + (list + 1 == num_lists ? kPaddingWords : 0);
  LoadBytes(sections.data_dev + sections.sources_dev[list], num_bytes, num_words,
            words + sections.BeginOf(list) / 4);
}

// Makes the blocks of a list streams, and the unused slots after them empty streams. One warp per
// list. Returns false if the lengths do not fit, or if a block is longer than its codes can be: the
// time to decode it would follow from the claimed length.
__device__ bool PlaceStreams(const KeyLists& lists, const ListBlocks& blocks, uint32_t list,
                             const CodeHead& head, const uint32_t* words, CodeStream* streams) {
  const uint32_t size = lists.SizeOf(list);
  const uint64_t num_blocks = NumCodeBlocks(size);
  const uint64_t num_others = num_blocks == 0 ? 0 : num_blocks - 1;
  uint64_t begin = head.blocks_begin + 4 * num_others;
  if (begin > head.end) return false;
  const uint64_t first_slot = blocks.FirstSlot(list);
  bool fits = true;
  for (uint64_t row = 0; first_slot + row < blocks.EndSlot(list); row += kWarpThreads) {
    const uint64_t block = row + ThisLane();
    const bool has_length = block < num_others;
    const uint64_t length =
        has_length ? PeekBits(words, 8 * (head.blocks_begin + 4 * block)) & 0xFFFFFFFF : 0;
    const uint64_t up_to_own = InclusiveSum(length);
    CodeStream stream{};
    stream.list = list;
    stream.block = static_cast<uint32_t>(block);
    stream.max_code_bits = head.max_code_bits;
    stream.is_open = !has_length;
    stream.begin = block < num_blocks ? begin + up_to_own - length : head.end;
    stream.end = has_length ? begin + up_to_own : head.end;
    if (block < num_blocks) {
      const uint64_t first_item = block * kCodeBlockItems;
      stream.first_item = lists.BeginOf(list) + first_item;
      stream.num_items = has_length ? kCodeBlockItems : size - first_item;
      const uint64_t longest = LongestEnd(stream, head.end);
      fits &= stream.is_open || stream.end <= longest;
      if (stream.is_open) stream.end = longest;
    }
    if (first_slot + block < blocks.EndSlot(list)) streams[first_slot + block] = stream;
    begin += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
  }
  return __any_sync(kAllLanes, !fits) == 0 && begin <= head.end;
}

__global__ void FindCodeBlocksKernel(KeyLists lists, const CodeHead* heads, uint64_t num_slots,
                                     const uint32_t* words, uint32_t bits, uint32_t* error,
                                     CodeStream* streams) {
  if (HasError(error)) return;
  const ListBlocks blocks(lists, num_slots);
  for (uint64_t i = ThisWarp(); i < lists.num_lists; i += NumWarps()) {
    const auto list = static_cast<uint32_t>(i);
    const bool fits = PlaceStreams(lists, blocks, list, heads[list], words, streams);
    if (!fits && ThisLane() == 0) atomicOr(error, bits);
  }
}

// A stream is followed in segments of some tiles: first, side by side, each segment from every bit
// at which its first code may begin; then from segment to segment; then each segment from its true
// beginning. One step waits for one read of memory, and a stream may have thousands of tiles.
constexpr uint32_t kSegmentTiles = 32;
constexpr uint32_t kSegments = 64;  // Side by side; longer streams take several rounds.
constexpr unsigned kFollowThreads = 1024;

struct FollowSpace {
  uint32_t notes[kSegments * kMaxCodeBits];  // As those of tiles.
  WalkStart starts[kSegments];
  WalkStart next;
  bool has_error;
};

// Follows the notes of the tiles up to `end`, after calling start(tile, begin) for each; returns
// where the next tile begins.
template <typename Start>
__device__ WalkStart FollowTiles(const uint32_t* notes, uint64_t tile, uint64_t end,
                                 WalkStart begin, const Start& start) {
  for (; tile < end; ++tile) {
    start(tile, begin);
    const uint32_t note = notes[tile * kMaxCodeBits + begin.bit];
    begin = {begin.first_item + WalkNote::NumCodes(note), WalkNote::Bit(note)};
  }
  return begin;
}

// Follows a round of segments, which begins at *next in the tile `first`, and sets *next to its
// end. Called by all threads of a block.
__device__ void FollowSegments(const CodeStream& stream, const uint32_t* notes, uint64_t first,
                               uint64_t end, FollowSpace* space, WalkStart* starts) {
  const auto num_segments = static_cast<uint32_t>(CeilDiv(end - first, kSegmentTiles));
  const auto end_of = [&](uint32_t segment) {
    const uint64_t its_end = first + (uint64_t{segment} + 1) * kSegmentTiles;
    return its_end < end ? its_end : end;
  };
  for (uint32_t i = threadIdx.x; i < num_segments * stream.max_code_bits; i += blockDim.x) {
    const uint32_t segment = i / stream.max_code_bits;
    const uint32_t bit = i % stream.max_code_bits;
    const WalkStart next = FollowTiles(notes, first + segment * kSegmentTiles, end_of(segment),
                                       {0, bit}, [](uint64_t, const WalkStart&) {});
    space->notes[segment * kMaxCodeBits + bit] =
        WalkNote::Of(next.bit, static_cast<uint32_t>(next.first_item));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    space->next = FollowTiles(
        space->notes, 0, num_segments, space->next,
        [&](uint64_t segment, const WalkStart& begin) { space->starts[segment] = begin; });
  }
  __syncthreads();
  for (uint32_t segment = threadIdx.x; segment < num_segments; segment += blockDim.x) {
    FollowTiles(notes, first + segment * kSegmentTiles, end_of(segment), space->starts[segment],
                [&](uint64_t tile, const WalkStart& begin) {
                  const bool has_code = begin.first_item < stream.num_items;
                  starts[tile] = {has_code ? begin.first_item : stream.num_items, begin.bit};
                });
  }
}

// One block per stream.
__global__ void __launch_bounds__(kFollowThreads)
    FollowWalkKernel(const CodeStream* streams, uint64_t num_streams, const uint32_t* notes,
                     uint32_t bits, uint32_t* error, WalkStart* starts) {
  __shared__ FollowSpace space;
  if (threadIdx.x == 0) space.has_error = LoadVolatile(error) != 0;
  __syncthreads();
  if (space.has_error) return;
  const StreamMap map(streams, num_streams);
  for (uint64_t s = blockIdx.x; s < num_streams; s += gridDim.x) {
    const CodeStream& stream = streams[s];
    if (stream.num_items == 0) continue;
    const uint64_t first = map.FirstTile(s);
    const uint64_t end = first + map.NumTiles(s);
    if (threadIdx.x == 0) space.next = {0, 0};
    for (uint64_t begin = first; begin < end; begin += kSegments * kSegmentTiles) {
      const uint64_t its_end = begin + kSegments * kSegmentTiles;
      FollowSegments(stream, notes, begin, its_end < end ? its_end : end, &space, starts);
      __syncthreads();
    }
    if (threadIdx.x == 0 && space.next.first_item < stream.num_items) atomicOr(error, bits);
  }
}

__global__ void CheckSectionEndsKernel(KeyLists lists, CodeSections sections,
                                       const uint64_t* list_ends, uint32_t bits, uint32_t* error) {
  for (uint64_t i = ThisThread(); i < lists.num_lists && LoadVolatile(error) == 0;
       i += NumThreads()) {
    const auto list = static_cast<uint32_t>(i);
    const uint64_t end = sections.BeginOf(list) + sections.NumBytesOf(list);
    if (lists.SizeOf(list) > 0 && list_ends[list] != end) atomicOr(error, bits);
  }
}

}  // namespace

void TakeCodeWriteBuffers(uint32_t num_lists, uint32_t max_items, uint64_t max_bytes,
                          Workspace* workspace, CodeWriteBuffers* buffers) {
  buffers->max_tiles = MaxKeyTiles(num_lists, max_items);
  buffers->num_slots = NumBlockSlots(num_lists, max_items);
  buffers->words_dev = workspace->Take<uint32_t>(CeilDiv(max_bytes, 4));
  buffers->sizes_dev = workspace->Take<CodeListSize>(num_lists);
  buffers->tile_begins_dev = workspace->Take<uint32_t>(buffers->max_tiles);
  buffers->ends_dev = workspace->Take<uint64_t>(buffers->num_slots + 1);
}

Status PlaceCodeBlocks(const KeyLists& lists, const CodeWriteBuffers& buffers,
                       cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(LaunchWarps("place tiles", PlaceTilesKernel, buffers.num_slots, stream, lists,
                                  buffers.num_slots, buffers.tile_begins_dev, buffers.ends_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ends_dev, buffers.num_slots, stream));
  return LaunchThreads("size lists", SizeListsKernel, lists.num_lists, stream, lists,
                       buffers.num_slots, buffers.ends_dev, buffers.sizes_dev);
}

Status ClearSections(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchViews<SectionWords>(
      "clear sections", [](auto source) { return ClearSectionKernel<decltype(source)>; }, frames,
      MaxSupportOf, stream);
}

Status StoreSections(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchViews<SectionWords>(
      "store sections", [](auto source) { return StoreSectionKernel<decltype(source)>; }, frames,
      MaxSupportOf, stream);
}

void TakeCodeReadBuffers(uint32_t num_lists, const CodeExtent& max_extent, Workspace* workspace,
                         CodeReadBuffers* buffers) {
  const uint64_t num_tiles = max_extent.num_tiles();
  buffers->words_dev = workspace->Take<uint32_t>(NumSectionWords(max_extent.num_bytes));
  buffers->streams_dev = workspace->Take<CodeStream>(max_extent.num_streams);
  buffers->notes_dev = workspace->Take<uint32_t>(num_tiles * kMaxCodeBits);
  buffers->starts_dev = workspace->Take<WalkStart>(num_tiles);
  buffers->list_ends_dev = workspace->Take<uint64_t>(num_lists);
}

uint64_t NumSectionWords(uint64_t num_bytes) { return CeilDiv(num_bytes, 4) + kPaddingWords; }

Status LoadSections(const CodeSections& sections, uint32_t num_lists, uint32_t* words_dev,
                    cudaStream_t stream) {
  if (sections.data_dev == nullptr) return OkStatus();
  const uint64_t num_words = NumSectionWords(sections.num_bytes);
  return LaunchParts("load sections", LoadSectionsKernel,
                     {NumSectionWords(sections.max_bytes), num_words}, num_lists, stream, sections,
                     num_lists, words_dev);
}

Status FindCodeBlocks(const KeyLists& lists, const CodeHead* heads_dev, const CodeExtent& extent,
                      const uint32_t* words_dev, uint32_t bits, uint32_t* error_dev,
                      CodeStream* streams_dev, cudaStream_t stream) {
  return LaunchWarps("find code blocks", FindCodeBlocksKernel, lists.max_used_lists(), stream,
                     lists, heads_dev, extent.num_streams, words_dev, bits, error_dev, streams_dev);
}

Status FollowWalk(const CodeExtent& extent, const CodeReadBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, cudaStream_t stream) {
  // Any of the slots may have a stream.
  constexpr uint64_t kMaxBlocks = 1024;
  const uint64_t num_blocks = std::min(extent.num_streams, kMaxBlocks);
  if (num_blocks == 0) return OkStatus();
  return Launch("follow walk", FollowWalkKernel, num_blocks, kFollowThreads, stream,
                buffers.streams_dev, extent.num_streams, buffers.notes_dev, bits, error_dev,
                buffers.starts_dev);
}

Status CheckSectionEnds(const KeyLists& lists, const CodeSections& sections,
                        const CodeReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                        cudaStream_t stream) {
  return LaunchThreads("check section ends", CheckSectionEndsKernel, lists.num_lists, stream, lists,
                       sections, buffers.list_ends_dev, bits, error_dev);
}

}  // namespace device
}  // namespace tfcompress
