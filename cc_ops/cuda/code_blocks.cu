#include "cuda/code_walk.h"
#include "cuda/cuda_status.h"
#include "cuda/raw_bytes.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Writing ------------------------------------------------------------------------------------

// A warp a block: its tiles are few.
__global__ void PlaceTilesKernel(const uint32_t* num_items, uint64_t num_blocks, uint32_t* tiles,
                                 uint64_t* num_bytes) {
  const uint64_t num_tiles = NumTiles(*num_items);
  for (uint64_t block = ThisWarp(); block < num_blocks; block += NumWarps()) {
    uint32_t begin = 0;
    for (uint32_t row = 0; row < kCodeBlockTiles; row += kWarpThreads) {
      const uint64_t tile = block * kCodeBlockTiles + row + ThisLane();
      const uint32_t own = tile < num_tiles ? tiles[tile] : 0;
      const uint32_t up_to_own = InclusiveSum(own);
      if (tile < num_tiles) tiles[tile] = begin + up_to_own - own;
      begin += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
    if (ThisLane() == 0) num_bytes[block] = (begin + 7) / 8;
  }
}

__global__ void SizeSectionKernel(const uint32_t* num_items, const uint64_t* num_block_bytes,
                                  CodeSectionSize* size) {
  if (ThisThread() != 0) return;
  const uint64_t num_others = *num_items == 0 ? 0 : NumCodeBlocks(*num_items) - 1;
  size->num_bytes = size->blocks_begin + 4 * num_others + *num_block_bytes;
}

__global__ void ClearWordsKernel(const uint32_t* num_items, const CodeSectionSize* size,
                                 uint32_t* words) {
  if (*num_items == 0) return;
  const uint64_t num_words = CeilDiv(size->num_bytes, 4);
  for (uint64_t i = ThisThread(); i < num_words; i += NumThreads()) words[i] = 0;
}

__global__ void StoreSectionKernel(const uint32_t* num_items, const CodeSectionSize* size,
                                   const uint32_t* words, unsigned char* section) {
  if (*num_items != 0) StoreBytes(words, size->num_bytes, section);
}

// ---- Reading ------------------------------------------------------------------------------------

__global__ void LoadSectionKernel(const unsigned char* section, uint64_t num_bytes,
                                  uint64_t num_words, uint32_t* words) {
  LoadBytes(section, num_bytes, num_words, words);
}

__global__ void ReadBlockLengthsKernel(CodeList list, const CodeSection* section,
                                       const uint32_t* words, uint32_t bits, uint32_t* error,
                                       uint64_t* lengths) {
  if (HasError(error)) return;
  const uint64_t begin = section->blocks_begin;
  const uint64_t num_others = NumCodeBlocks(list.num_items) - 1;
  if (begin + 4 * num_others > list.num_bytes) {
    if (ThisThread() == 0) atomicOr(error, bits);
    return;
  }
  for (uint64_t i = ThisThread(); i < num_others; i += NumThreads())
    lengths[i] = static_cast<uint32_t>(PeekBits(words, 8 * (begin + 4 * i)));
}

// Notes are looked at one after the other: so many are fetched at once.
constexpr uint32_t kFetchedTiles = 8;

// A warp a block. All lanes follow the same notes.
__global__ void FollowWalkKernel(CodeList list, const CodeSection* section, const uint64_t* begins,
                                 const uint32_t* notes, uint32_t bits, uint32_t* error,
                                 WalkStart* starts) {
  __shared__ uint32_t fetched[kBlockWarps][kFetchedTiles * kMaxCodeBits];
  if (HasError(error)) return;
  uint32_t* own = fetched[threadIdx.x / kWarpThreads];
  const BlockMap map(list, section, begins);
  for (uint64_t block = ThisWarp(); block < map.num_blocks(); block += NumWarps()) {
    const uint32_t num_items = map.NumItems(block);
    const uint64_t first = map.FirstTile(block);
    const uint64_t end = first + map.NumTiles(block);
    WalkStart next = {0, 0};
    for (uint64_t begin = first; begin < end; begin += kFetchedTiles) {
      const uint64_t num_left = (end - begin) * kMaxCodeBits;
      for (uint32_t i = ThisLane(); i < kFetchedTiles * kMaxCodeBits && i < num_left;
           i += kWarpThreads)
        own[i] = notes[begin * kMaxCodeBits + i];
      __syncwarp();
      for (uint32_t i = 0; i < kFetchedTiles && begin + i < end; ++i) {
        if (ThisLane() == i) starts[begin + i] = next;
        const uint32_t note = own[i * kMaxCodeBits + next.bit];
        const uint32_t num_read = next.first_item + WalkNote::NumCodes(note);
        next = {num_read < num_items ? num_read : num_items, WalkNote::Bit(note)};
      }
      __syncwarp();
    }
    if (next.first_item < num_items && ThisLane() == 0) atomicOr(error, bits);
  }
}

__global__ void CheckSectionEndKernel(uint64_t num_bytes, const CodeSection* section, uint32_t bits,
                                      uint32_t* error) {
  if (ThisThread() == 0 && *error == 0 && section->num_bytes != num_bytes) atomicOr(error, bits);
}

}  // namespace

Status TakeCodeWriteBuffers(uint32_t max_items, uint64_t max_bytes, Workspace* workspace,
                            CodeWriteBuffers* buffers) {
  const uint64_t num_blocks = NumCodeBlocks(max_items);
  buffers->max_items = max_items;
  buffers->words_dev = workspace->Take<uint32_t>(CeilDiv(max_bytes, 4));
  buffers->size_dev = workspace->Take<CodeSectionSize>(1);
  buffers->tile_begins_dev = workspace->Take<uint32_t>(NumTiles(max_items));
  buffers->ends_dev = workspace->Take<uint64_t>(num_blocks + 1);
  return TakeScanStorage(num_blocks, workspace, &buffers->scan_storage);
}

Status PlaceCodeBlocks(const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                       cudaStream_t stream) {
  const uint64_t num_blocks = NumCodeBlocks(buffers.max_items);
  TFC_RETURN_IF_ERROR(LaunchWarps("place tiles", PlaceTilesKernel, num_blocks, stream,
                                  num_items_dev, num_blocks, buffers.tile_begins_dev,
                                  buffers.ends_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ends_dev, num_blocks, buffers.scan_storage, stream));
  return Launch("size section", SizeSectionKernel, 1, kWarpThreads, stream, num_items_dev,
                buffers.ends_dev + num_blocks, buffers.size_dev);
}

Status ClearCodeSection(const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                        cudaStream_t stream) {
  return LaunchThreads("clear words", ClearWordsKernel, buffers.max_items, stream, num_items_dev,
                       buffers.size_dev, buffers.words_dev);
}

Status StoreCodeSection(const uint32_t* num_items_dev, const CodeWriteBuffers& buffers,
                        unsigned char* section_dev, cudaStream_t stream) {
  return LaunchThreads("store section", StoreSectionKernel, buffers.max_items, stream,
                       num_items_dev, buffers.size_dev, buffers.words_dev, section_dev);
}

Status TakeCodeReadBuffers(uint32_t max_items, uint64_t max_bytes, Workspace* workspace,
                           CodeReadBuffers* buffers) {
  const uint64_t num_blocks = NumCodeBlocks(max_items);
  const uint64_t num_tiles = max_items == 0 ? 0 : NumWalkTiles(max_items, max_bytes);
  buffers->words_dev = workspace->Take<uint32_t>(CeilDiv(max_bytes, 4) + kPaddingWords);
  buffers->section_dev = workspace->Take<CodeSection>(1);
  buffers->begins_dev = workspace->Take<uint64_t>(num_blocks);
  buffers->notes_dev = workspace->Take<uint32_t>(num_tiles * kMaxCodeBits);
  buffers->starts_dev = workspace->Take<WalkStart>(num_tiles);
  return TakeScanStorage(num_blocks, workspace, &buffers->scan_storage);
}

Status LoadCodeSection(const unsigned char* section_dev, const CodeList& list,
                       const CodeReadBuffers& buffers, cudaStream_t stream) {
  const uint64_t num_words = CeilDiv(list.num_bytes, 4) + kPaddingWords;
  return LaunchThreads("load section", LoadSectionKernel, num_words, stream, section_dev,
                       list.num_bytes, num_words, buffers.words_dev);
}

Status FindCodeBlocks(const CodeList& list, const CodeReadBuffers& buffers, uint32_t bits,
                      uint32_t* error_dev, cudaStream_t stream) {
  const uint64_t num_blocks = NumCodeBlocks(list.num_items);
  TFC_RETURN_IF_ERROR(LaunchThreads("read block lengths", ReadBlockLengthsKernel, num_blocks,
                                    stream, list, buffers.section_dev, buffers.words_dev, bits,
                                    error_dev, buffers.begins_dev));
  return ScanCounts(buffers.begins_dev, num_blocks - 1, buffers.scan_storage, stream);
}

Status FollowWalk(const CodeList& list, const CodeReadBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, cudaStream_t stream) {
  return LaunchWarps("follow walk", FollowWalkKernel, NumCodeBlocks(list.num_items), stream, list,
                     buffers.section_dev, buffers.begins_dev, buffers.notes_dev, bits, error_dev,
                     buffers.starts_dev);
}

Status CheckCodeSectionEnd(const CodeList& list, const CodeReadBuffers& buffers, uint32_t bits,
                           uint32_t* error_dev, cudaStream_t stream) {
  return Launch("check section end", CheckSectionEndKernel, 1, kWarpThreads, stream, list.num_bytes,
                buffers.section_dev, bits, error_dev);
}

}  // namespace device
}  // namespace tfcompress
