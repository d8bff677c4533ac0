#include "core/bit_io.h"
#include "core/entropy/package_merge.h"
#include "cuda/bit_strings.h"
#include "cuda/canonical_words.h"
#include "cuda/code_walk.h"
#include "cuda/cuda_status.h"
#include "cuda/huffman_cells.h"
#include "cuda/scan.h"
#include "cuda/sketch_groups.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Writing ------------------------------------------------------------------------------------

__global__ void ListCellsKernel(const SketchGroup* groups, KeyLists lists) {
  for (uint64_t i = ThisThread(); i < lists.num_lists; i += NumThreads()) {
    lists.Set(static_cast<uint32_t>(i), static_cast<uint32_t>(groups[i].first_cell),
              static_cast<uint32_t>(groups[i].num_cells));
  }
}

__global__ void CountCellsKernel(KeyLists lists, uint64_t max_tiles, const SketchGroup* groups,
                                 uint32_t* cells, unsigned long long* counts) {
  ForEachKey(lists, max_tiles, [&](uint64_t i, uint32_t list) {
    if (cells[i] == kEmptyCell) cells[i] = 0;
    atomicAdd(&counts[groups[list].first_symbol + cells[i]], 1ull);
  });
}

// Shared memory of a block that finds a code.
struct CodeSpace {
  uint64_t sorted[kMaxCodedWidth];
  uint64_t items[2 * kMaxCodedWidth];
  uint64_t merged[2 * kMaxCodedWidth];
  uint16_t is_count[2 * kMaxCodedWidth];
  uint16_t symbols[kMaxCodedWidth];  // Sorted by their counts.
  uint8_t found[kMaxCodedWidth];
  uint32_t next_words[kMaxHuffmanBits + 1];
};
static_assert(sizeof(CodeSpace) <= 48 * 1024);

// Sorts the symbols that occur by their counts, ties by symbol. Called by all threads of a block.
// Returns their number.
__device__ uint32_t SortSymbols(const unsigned long long* counts, uint32_t width,
                                CodeSpace* space) {
  uint32_t num_symbols = 0;
  for (uint32_t symbol = 0; symbol < width; ++symbol) num_symbols += counts[symbol] != 0;
  for (uint32_t symbol = threadIdx.x; symbol < width; symbol += blockDim.x) {
    const uint64_t count = counts[symbol];
    if (count == 0) continue;
    uint32_t rank = 0;
    for (uint32_t other = 0; other < width; ++other) {
      const uint64_t its = counts[other];
      rank += its != 0 && (its < count || (its == count && other < symbol));
    }
    space->sorted[rank] = count;
    space->symbols[rank] = static_cast<uint16_t>(symbol);
  }
  __syncthreads();
  return num_symbols;
}

// Chooses between the words of a group, whose lengths are set, and numbers. Runs on one thread.
__device__ void ChooseWords(const unsigned long long* counts, uint8_t* lengths, CodeSpace* space,
                            HuffmanWord* words, SketchGroup* group) {
  const uint32_t width = group->width;
  uint64_t num_bits = 0;
  for (uint32_t symbol = 0; symbol < width; ++symbol) num_bits += counts[symbol] * lengths[symbol];
  const uint64_t num_length_bytes = BytesOfBits(NumLengthBits(lengths, width));
  const uint64_t num_coded_bytes = num_length_bytes + BytesOfBits(num_bits);
  const int number_bits = BitsFor(width);
  const uint64_t num_packed_bytes = PackedBytes(group->num_cells, number_bits);
  group->has_code = num_coded_bytes < num_packed_bytes;
  group->num_cell_bytes = 1 + (group->has_code ? num_coded_bytes : num_packed_bytes);
  group->num_length_bytes = group->has_code ? static_cast<uint32_t>(num_length_bytes) : 0;
  if (group->has_code) {
    AssignHuffmanWords(lengths, width, space->next_words, words);
    return;
  }
  for (uint32_t symbol = 0; symbol < width; ++symbol)
    words[symbol] = {static_cast<uint16_t>(symbol), static_cast<uint16_t>(number_bits)};
}

// One block per group.
__global__ void FindCodesKernel(const unsigned long long* all_counts, uint8_t* all_lengths,
                                HuffmanWord* all_words, SketchGroup* groups) {
  __shared__ CodeSpace space;
  SketchGroup* group = &groups[blockIdx.x];
  const uint32_t width = group->width;
  if (width == 0) return;
  const unsigned long long* counts = all_counts + group->first_symbol;
  uint8_t* lengths = all_lengths + group->first_symbol;
  const uint32_t num_symbols = SortSymbols(counts, width, &space);
  if (threadIdx.x != 0) return;
  static_assert(kMaxCodedWidth <= 1024);  // More of them may have longer words.
  PackageMerge(space.sorted, num_symbols, kSmallAlphabetHuffmanBits,
               {space.items, space.merged, space.is_count}, space.found);
  for (uint32_t symbol = 0; symbol < width; ++symbol) lengths[symbol] = 0;
  for (uint32_t i = 0; i < num_symbols; ++i) lengths[space.symbols[i]] = space.found[i];
  ChooseWords(counts, lengths, &space, all_words + group->first_symbol, group);
}

class CellWords {
 public:
  struct Source {
    const SketchGroup* groups;
    const HuffmanWord* words;
  };

  __device__ CellWords(const Source& source, uint32_t list)
      : words_(source.words + source.groups[list].first_symbol) {}

  __device__ ItemCode At(const uint32_t* cells, uint64_t i) const {
    const HuffmanWord word = words_[cells[i]];
    return {word.bits, word.length};
  }

 private:
  const HuffmanWord* words_;
};

__global__ void WriteCellsKernel(CellWords::Source source, KeyLists lists, uint64_t max_tiles,
                                 const uint8_t* all_lengths, const uint64_t* ends,
                                 const uint32_t* cells, uint32_t* words) {
  __shared__ uint32_t rows[kBlockWarps][kRowWords];
  for (uint64_t t = ThisWarp(); t < max_tiles; t += NumWarps()) {
    const KeyTile tile = lists.At(t);
    if (!tile.exists()) continue;
    const SketchGroup& group = source.groups[tile.list];
    if (tile.tile == 0 && group.has_code && ThisLane() == 0) {
      WordWriter writer = {words, 8 * group.cells_begin};
      writer.Write(static_cast<uint64_t>(CellCoding::kHuffman), 8);
      WriteLengthRuns(all_lengths + group.first_symbol, group.width, &writer);
    }
    const uint64_t begin =
        8 * (group.cells_begin + 1 + group.num_length_bytes) + ends[t] - ends[tile.first_tile];
    WriteTile(CellWords(source, tile.list), tile, cells, begin, rows[threadIdx.x / kWarpThreads],
              words);
  }
}

// ---- Reading ------------------------------------------------------------------------------------

// Reads the header before the cells of a group, and makes a stream of the cells: one without items
// if they are numbers. Returns false if the header is invalid.
__device__ bool ReadCellHead(const CellReadBuffers& buffers, uint32_t list, uint64_t end,
                             WordReader* reader, uint32_t* num_words, SketchGroup* group,
                             CodeStream* stream) {
  const auto coding = static_cast<CellCoding>(reader->Peek() & 0xFF);
  reader->Skip(8);
  if (!reader->Finish()) return false;
  if (coding != CellCoding::kPacked && coding != CellCoding::kHuffman) return false;
  group->cells_begin = reader->position / 8;
  group->has_code = coding == CellCoding::kHuffman;
  stream->begin = stream->end = group->cells_begin;
  if (!group->has_code)
    return group->cells_begin + PackedBytes(group->num_cells, BitsFor(group->width)) == end;
  uint8_t* lengths = buffers.lengths_dev + group->first_symbol;
  if (!ReadWordLengths(group->width, reader, lengths)) return false;
  CanonicalCode* code = &buffers.codes_dev[list];
  uint16_t* symbols = buffers.symbols_dev + group->first_symbol;
  SetCode(lengths, group->width, num_words, code,
          [&](uint32_t place, uint32_t symbol) { symbols[place] = static_cast<uint16_t>(symbol); });
  *stream = {reader->position / 8, end, group->first_cell, group->num_cells, list, 0, false,
             code->max_length};
  return LongestEnd(*stream, end) == end;
}

// One warp per group; one lane reads.
__global__ void ReadCellHeadsKernel(uint64_t num_lists, CodeReadBuffers codes,
                                    CellReadBuffers buffers, uint32_t bits, uint32_t* error,
                                    SketchGroup* groups) {
  __shared__ uint32_t num_words[kBlockWarps][kMaxHuffmanBits + 1];
  if (HasError(error)) return;
  for (uint64_t i = ThisWarp(); i < num_lists && ThisLane() == 0; i += NumWarps()) {
    const auto list = static_cast<uint32_t>(i);
    SketchGroup* group = &groups[list];
    const uint64_t end = group->keys_begin + group->num_key_bytes + group->num_cell_bytes;
    CodeStream stream{};
    stream.begin = stream.end = end;
    if (group->width != 0) {
      WordReader reader = {codes.words_dev, end, 8 * codes.list_ends_dev[list]};
      if (!ReadCellHead(buffers, list, end, &reader, num_words[threadIdx.x / kWarpThreads], group,
                        &stream))
        atomicOr(error, bits);
    }
    codes.streams_dev[list] = stream;
  }
}

class CellCodes {
 public:
  using Source = const CanonicalCode*;

  __device__ CellCodes(Source codes, uint32_t list) : code_(codes + list) {}

  __device__ uint32_t Length(uint64_t window) const { return ReadWord(*code_, window).length; }

 private:
  const CanonicalCode* code_;
};

// One thread per tile.
__global__ void DecodeCellsKernel(CodeExtent extent, CodeReadBuffers codes, CellReadBuffers buffers,
                                  const SketchGroup* groups, uint32_t bits, uint32_t* error) {
  if (HasError(error)) return;
  const StreamMap map(codes.streams_dev, extent.num_streams);
  for (uint64_t i = ThisThread(); i < extent.num_tiles(); i += NumThreads()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    const CodeStream& stream = codes.streams_dev[tile.stream];
    const CanonicalCode& code = buffers.codes_dev[stream.list];
    const uint16_t* symbols = buffers.symbols_dev + groups[stream.list].first_symbol;
    uint16_t* cells = buffers.cells_dev + stream.first_item;
    const auto decode = [&](uint64_t item, uint64_t window) {
      const CanonicalWord word = ReadWord(code, window);
      cells[item] = symbols[word.place];
      return word.length;
    };
    if (!DecodeTile(stream, tile, codes.starts_dev[i], codes.words_dev, codes.list_ends_dev,
                    decode))
      atomicOr(error, bits);
  }
}

}  // namespace

Status TakeCellWriteBuffers(uint32_t num_lists, uint64_t num_symbols, uint64_t max_cells,
                            Workspace* workspace, CellWriteBuffers* buffers) {
  if (max_cells > 0xFFFFFFFF)
    return InvalidArgument("skcompress: the sketches have up to ", max_cells,
                           " cells, fewer than 2^32 expected on a device");
  buffers->num_symbols = num_symbols;
  buffers->lists = TakeKeyLists(num_lists, static_cast<uint32_t>(max_cells), workspace);
  buffers->counts_dev = workspace->Take<unsigned long long>(num_symbols);
  buffers->lengths_dev = workspace->Take<uint8_t>(num_symbols);
  buffers->words_dev = workspace->Take<HuffmanWord>(num_symbols);
  buffers->ends_dev = workspace->Take<uint64_t>(buffers->max_tiles() + 1);
  return OkStatus();
}

Status MeasureCells(const CellWriteBuffers& buffers, SketchGroup* groups_dev, uint32_t* cells_dev,
                    cudaStream_t stream) {
  const uint64_t max_tiles = buffers.max_tiles();
  const CellWords::Source source = {groups_dev, buffers.words_dev};
  TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(
      buffers.counts_dev, 0, buffers.num_symbols * sizeof(*buffers.counts_dev), stream));
  const KeyLists& lists = buffers.lists;
  TFC_RETURN_IF_ERROR(
      LaunchThreads("list cells", ListCellsKernel, lists.num_lists, stream, groups_dev, lists));
  TFC_RETURN_IF_ERROR(ScanCounts(lists.first_tiles_dev, lists.num_lists, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("count cells", CountCellsKernel, max_tiles, stream, buffers.lists,
                                  max_tiles, groups_dev, cells_dev, buffers.counts_dev));
  TFC_RETURN_IF_ERROR(Launch("find codes", FindCodesKernel, buffers.lists.num_lists, kBlockThreads,
                             stream, buffers.counts_dev, buffers.lengths_dev, buffers.words_dev,
                             groups_dev));
  TFC_RETURN_IF_ERROR(MeasureCodes<CellWords>(source, buffers.lists, max_tiles, cells_dev,
                                              buffers.ends_dev, stream));
  return ScanCounts(buffers.ends_dev, max_tiles, stream);
}

Status WriteCodedCells(const CellWriteBuffers& buffers, const SketchGroup* groups_dev,
                       const uint32_t* cells_dev, uint32_t* words_dev, cudaStream_t stream) {
  const uint64_t max_tiles = buffers.max_tiles();
  const CellWords::Source source = {groups_dev, buffers.words_dev};
  return LaunchWarps("write cells", WriteCellsKernel, max_tiles, stream, source, buffers.lists,
                     max_tiles, buffers.lengths_dev, buffers.ends_dev, cells_dev, words_dev);
}

void TakeCellReadBuffers(uint32_t num_lists, uint64_t num_symbols, uint64_t max_cells,
                         Workspace* workspace, CellReadBuffers* buffers) {
  buffers->lengths_dev = workspace->Take<uint8_t>(num_symbols);
  buffers->symbols_dev = workspace->Take<uint16_t>(num_symbols);
  buffers->codes_dev = workspace->Take<CanonicalCode>(num_lists);
  buffers->cells_dev = workspace->Take<uint16_t>(max_cells);
}

Status ReadCodedCells(const CodeExtent& extent, const CodeReadBuffers& codes,
                      const CellReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                      SketchGroup* groups_dev, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(LaunchWarps("read cell heads", ReadCellHeadsKernel, extent.max_used_streams(),
                                  stream, extent.num_streams, codes, buffers, bits, error_dev,
                                  groups_dev));
  TFC_RETURN_IF_ERROR(WalkTiles<CellCodes>(buffers.codes_dev, extent, codes, error_dev, stream));
  TFC_RETURN_IF_ERROR(FollowWalk(extent, codes, bits, error_dev, stream));
  return LaunchThreads("decode cells", DecodeCellsKernel, extent.max_used_tiles(), stream, extent,
                       codes, buffers, groups_dev, bits, error_dev);
}

}  // namespace device
}  // namespace tfcompress
