#include "cuda/code_walk.h"
#include "cuda/cuda_status.h"
#include "cuda/digits.h"
#include "cuda/prefixed_deltas.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Encoding -----------------------------------------------------------------------------------

__device__ uint32_t DeltaAt(const uint32_t* keys, uint64_t i) {
  return keys[i] - (i == 0 ? 0 : keys[i - 1]);
}

// Deltas in a row are often of one size.
__global__ void CountDeltaBitsKernel(const uint32_t* keys, const uint32_t* k, uint32_t* counts) {
  __shared__ uint32_t of_warps[kBlockWarps][kMaxDeltaBits];
  static_assert(kMaxDeltaBits == kWarpThreads);
  uint32_t* own = of_warps[threadIdx.x / kWarpThreads];
  own[ThisLane()] = 0;
  __syncwarp();
  for (uint64_t row = ThisWarp() * kWarpThreads; row < *k; row += NumWarps() * kWarpThreads) {
    const uint64_t i = row + ThisLane();
    const bool has_one = i < *k;
    const int num_bits = has_one ? DeltaBits(DeltaAt(keys, i)) : 1;
    CountBuckets(static_cast<uint32_t>(num_bits - 1), has_one, own);
  }
  __syncwarp();
  if (own[ThisLane()] != 0) atomicAdd(&counts[ThisLane()], own[ThisLane()]);
}

// Appends to words that are zero.
struct HeaderWriter {
  uint32_t* words;
  uint64_t position = 0;

  __device__ void Write(uint64_t bits, int num_bits) {
    OrBits(words, position, bits);
    position += static_cast<uint64_t>(num_bits);
  }
};

// The scheme and its header, by one thread, from the candidates' spaces.
__device__ void ChooseAdaptive(const uint64_t* costs, AdaptiveSpace* spaces, HeaderWriter* header,
                               DeltaScheme* scheme) {
  const int best = CheapestCandidate(costs);
  const DeltaPrefix prefix = DeltaPrefix::Candidate(best);
  SetAdaptiveScheme(prefix.num_intervals(), &spaces[best], scheme);
  header->Write(prefix.kind(), 8);
  if (prefix.is_huffman) WriteLengthRuns(scheme->lengths, scheme->num_classes, header);
}

__device__ void ChooseFlags(int flag_bits, const uint64_t* counts, AdaptiveSpace* space,
                            HeaderWriter* header, DeltaScheme* scheme) {
  const int largest_bits = LargestDeltaBits(counts);
  SetFlagScheme(flag_bits, largest_bits, space->next_words, scheme);
  header->Write(static_cast<uint64_t>(flag_bits), 8);
  header->Write(static_cast<uint64_t>(largest_bits), 8);
}

// One warp: a lane a candidate.
__global__ void ChooseSchemeKernel(DeltaCoding coding, const uint32_t* k, const uint32_t* counts_of,
                                   DeltaChoice* choice, CodeSectionSize* size) {
  __shared__ uint64_t counts[kMaxDeltaBits + 1];
  __shared__ AdaptiveSpace spaces[kNumDeltaPrefixes];
  __shared__ uint64_t costs[kNumDeltaPrefixes];
  __shared__ DeltaScheme scheme;
  const uint32_t lane = ThisLane();
  counts[lane + 1] = counts_of[lane];
  if (lane < kDeltaHeaderWords) choice->header[lane] = 0;
  __syncwarp();
  if (coding.is_adaptive && lane < kNumDeltaPrefixes) {
    const DeltaPrefix prefix = DeltaPrefix::Candidate(static_cast<int>(lane));
    costs[lane] = CostOf(counts, prefix, &spaces[lane]).total();
  }
  __syncwarp();
  if (lane == 0) {
    HeaderWriter header = {choice->header};
    if (coding.is_adaptive) {
      ChooseAdaptive(costs, spaces, &header, &scheme);
    } else {
      ChooseFlags(coding.flag_bits, counts, spaces, &header, &scheme);
    }
    choice->num_header_bytes = static_cast<uint32_t>(BytesOfBits(header.position));
    const uint64_t num_blocks = NumCodeBlocks(*k);
    size->blocks_begin = choice->num_header_bytes + (num_blocks == 0 ? 0 : 4 * (num_blocks - 1));
  }
  __syncwarp();
  const int num_bits = static_cast<int>(lane) + 1;
  if (num_bits <= scheme.max_width()) choice->fields[num_bits] = DeltaFieldOf(scheme, num_bits);
}

class FieldCodes {
 public:
  using Source = const DeltaChoice*;

  __device__ explicit FieldCodes(Source choice) : choice_(choice) {}

  __device__ ItemCode At(const uint32_t* keys, uint64_t i) const {
    const uint32_t delta = DeltaAt(keys, i);
    const DeltaField field = choice_->fields[DeltaBits(delta)];
    return {field.prefix | static_cast<uint64_t>(delta) << field.num_prefix_bits, field.num_bits};
  }
  // The header of the section, and the last keys of all blocks but the last.
  __device__ void WriteHead(const uint32_t* keys, uint64_t block, bool is_last,
                            uint32_t* words) const {
    for (uint32_t i = 0; block == 0 && i < kDeltaHeaderWords; ++i)
      OrBits(words, 32 * i, choice_->header[i]);
    if (!is_last)
      OrBits(words, 8 * (choice_->num_header_bytes + 4 * block),
             keys[(block + 1) * kCodeBlockItems - 1]);
  }

 private:
  const DeltaChoice* choice_;
};

// ---- Decoding -----------------------------------------------------------------------------------

// Reads the bits of a section, and zeros after them, by one thread.
struct HeaderReader {
  const uint32_t* words;
  uint64_t num_bytes;
  uint64_t position = 0;

  __device__ uint64_t Peek() const {
    return position < 8 * num_bytes ? PeekBits(words, position) : 0;
  }
  __device__ void Skip(int num_bits) { position += static_cast<uint64_t>(num_bits); }
  // Goes to the end of a byte; false where bits were missing, or more of them are set.
  __device__ bool Finish() {
    if (position > 8 * num_bytes || !EndsItsByte(words, position)) return false;
    position = 8 * BytesOfBits(position);
    return true;
  }
};

__device__ bool ReadPrefixLengths(uint32_t m, HeaderReader* reader, uint8_t* lengths) {
  int64_t previous = -1;
  for (uint32_t symbol = 0; symbol < m;) {
    const LengthRun run = ReadLengthRun(previous, m - symbol, reader);
    if (!run.is_valid) return false;
    for (uint32_t i = 0; i < run.count; ++i) lengths[symbol++] = static_cast<uint8_t>(run.length);
    previous = run.length;
  }
  return reader->Finish() && CheckHuffmanLengths(lengths, m) == LengthsError::kNone;
}

__device__ bool ReadAdaptive(HeaderReader* reader, AdaptiveSpace* space, DeltaScheme* scheme) {
  const auto kind = static_cast<uint8_t>(reader->Peek());
  reader->Skip(8);
  if (kind >= kNumDeltaPrefixes || !reader->Finish()) return false;
  const DeltaPrefix prefix = DeltaPrefix::OfKind(kind);
  const uint32_t m = prefix.num_intervals();
  for (uint32_t i = 0; i < m; ++i)
    space->lengths[i] = static_cast<uint8_t>(prefix.log_intervals + 1);
  if (prefix.is_huffman && !ReadPrefixLengths(m, reader, space->lengths)) return false;
  SetAdaptiveScheme(m, space, scheme);
  return true;
}

__device__ bool ReadFlags(HeaderReader* reader, AdaptiveSpace* space, DeltaScheme* scheme) {
  const auto header = static_cast<uint32_t>(reader->Peek());
  reader->Skip(16);
  const auto flag_bits = static_cast<int>(header & 0xFF);
  const auto largest_bits = static_cast<int>(header >> 8 & 0xFF);
  if (!reader->Finish() || !IsFlagScheme(flag_bits, largest_bits)) return false;
  SetFlagScheme(flag_bits, largest_bits, space->next_words, scheme);
  return true;
}

__device__ uint32_t MaxCodeBits(const DeltaScheme& scheme) {
  uint32_t max_bits = 0;
  for (uint32_t c = 0; c < scheme.num_classes; ++c) {
    const uint32_t num_bits = scheme.lengths[c] == 0 ? 0u : scheme.lengths[c] + scheme.widths[c];
    if (num_bits > max_bits) max_bits = num_bits;
  }
  return max_bits;
}

// One block: a thread reads, all of them fill the table.
__global__ void ReadSchemeKernel(bool is_adaptive, CodeList list, const uint32_t* words,
                                 uint32_t bits, uint32_t* error, DeltaReading* reading,
                                 CodeSection* section, DeltaLayout* layouts) {
  __shared__ AdaptiveSpace space;
  __shared__ DeltaScheme scheme;
  __shared__ bool is_valid;
  if (threadIdx.x == 0) {
    HeaderReader reader = {words, list.num_bytes};
    is_valid =
        is_adaptive ? ReadAdaptive(&reader, &space, &scheme) : ReadFlags(&reader, &space, &scheme);
    if (is_valid) {
      reading->layout_mask = (1u << scheme.max_prefix_bits) - 1;
      reading->last_keys_begin = reader.position / 8;
      section->blocks_begin = reading->last_keys_begin + 4 * (NumCodeBlocks(list.num_items) - 1);
      section->max_code_bits = MaxCodeBits(scheme);
    } else {
      atomicOr(error, bits);
    }
  }
  __syncthreads();
  if (is_valid) FillDeltaLayouts(scheme, threadIdx.x, blockDim.x, layouts);
}

class LayoutCodes {
 public:
  struct Source {
    const DeltaReading* reading;
    const DeltaLayout* layouts;
  };

  __device__ explicit LayoutCodes(const Source& source)
      : mask_(source.reading->layout_mask), layouts_(source.layouts) {}

  __device__ DeltaLayout At(uint64_t window) const {
    return layouts_[static_cast<uint32_t>(window) & mask_];
  }
  __device__ uint32_t Length(uint64_t window) const {
    const DeltaLayout layout = At(window);
    return uint32_t{layout.num_prefix_bits} + layout.width;
  }

 private:
  uint32_t mask_;
  const DeltaLayout* layouts_;
};

// A thread a tile: its keys, as if it were the first one, and how far they reach.
__global__ void DecodeDeltasKernel(LayoutCodes::Source source, CodeList list, CodeSection* section,
                                   const uint64_t* begins, const WalkStart* starts,
                                   const uint32_t* words, uint32_t bits, uint32_t* error,
                                   uint32_t* keys, uint32_t* distances) {
  if (HasError(error)) return;
  const LayoutCodes codes(source);
  const BlockMap map(list, section, begins);
  const uint64_t num_tiles = NumWalkTiles(list.num_items, list.num_bytes);
  for (uint64_t i = ThisThread(); i < num_tiles; i += NumThreads()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    uint32_t* block_keys = keys + tile.block * kCodeBlockItems;
    uint32_t distance = 0;
    const bool is_whole = DecodeTile(
        map, tile, starts[i], words, section, [&](uint32_t item, uint64_t window) -> uint32_t {
          const DeltaLayout layout = codes.At(window);
          const uint64_t above = ~uint64_t{0} << layout.width;
          distance += static_cast<uint32_t>(window >> layout.num_prefix_bits & ~above);
          block_keys[item] = distance;
          return uint32_t{layout.num_prefix_bits} + layout.width;
        });
    distances[i] = distance;
    if (!is_whole) atomicOr(error, bits);
  }
}

__device__ uint32_t LastKey(const DeltaReading* reading, const uint32_t* words, uint64_t block) {
  return static_cast<uint32_t>(PeekBits(words, 8 * (reading->last_keys_begin + 4 * block)));
}

// A warp a block: where its tiles begin, and whether its last key is what the section says.
__global__ void SumDistancesKernel(CodeList list, const DeltaReading* reading,
                                   const CodeSection* section, const uint64_t* begins,
                                   const uint32_t* words, uint32_t bits, uint32_t* error,
                                   uint32_t* distances) {
  if (HasError(error)) return;
  const BlockMap map(list, section, begins);
  for (uint64_t block = ThisWarp(); block < map.num_blocks(); block += NumWarps()) {
    uint32_t key = block == 0 ? 0 : LastKey(reading, words, block - 1);
    const uint64_t end = map.FirstTile(block) + map.NumTiles(block);
    for (uint64_t row = map.FirstTile(block); row < end; row += kWarpThreads) {
      const uint64_t i = row + ThisLane();
      const uint32_t own = i < end ? distances[i] : 0;
      const uint32_t up_to_own = InclusiveSum(own);
      if (i < end) distances[i] = key + up_to_own - own;
      key += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
    const bool is_last = block + 1 == map.num_blocks();
    if (!is_last && key != LastKey(reading, words, block) && ThisLane() == 0) atomicOr(error, bits);
  }
}

// A warp a tile.
__global__ void AddTileBeginsKernel(CodeList list, const CodeSection* section,
                                    const uint64_t* begins, const WalkStart* starts,
                                    const uint32_t* distances, const uint32_t* error,
                                    uint32_t* keys) {
  if (HasError(error)) return;
  const BlockMap map(list, section, begins);
  const uint64_t num_tiles = NumWalkTiles(list.num_items, list.num_bytes);
  for (uint64_t i = ThisWarp(); i < num_tiles; i += NumWarps()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    const bool is_last = i + 1 == map.FirstTile(tile.block) + map.NumTiles(tile.block);
    const uint32_t end = is_last ? map.NumItems(tile.block) : starts[i + 1].first_item;
    uint32_t* block_keys = keys + tile.block * kCodeBlockItems;
    for (uint32_t item = starts[i].first_item + ThisLane(); item < end; item += kWarpThreads)
      block_keys[item] += distances[i];
  }
}

}  // namespace

Status TakeDeltaWriteBuffers(uint32_t max_k, uint64_t max_bytes, Workspace* workspace,
                             DeltaWriteBuffers* buffers) {
  buffers->counts_dev = workspace->Take<uint32_t>(kMaxDeltaBits);
  buffers->choice_dev = workspace->Take<DeltaChoice>(1);
  return TakeCodeWriteBuffers(max_k, max_bytes, workspace, &buffers->codes);
}

Status MeasurePrefixedDeltas(const DeltaCoding& coding, const uint32_t* keys_dev,
                             const uint32_t* k_dev, const DeltaWriteBuffers& buffers,
                             cudaStream_t stream) {
  const uint32_t max_k = buffers.codes.max_items;
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.counts_dev, 0, kMaxDeltaBits * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("count delta bits", CountDeltaBitsKernel, max_k, stream,
                                    keys_dev, k_dev, buffers.counts_dev));
  TFC_RETURN_IF_ERROR(Launch("choose scheme", ChooseSchemeKernel, 1, kWarpThreads, stream, coding,
                             k_dev, buffers.counts_dev, buffers.choice_dev,
                             buffers.codes.size_dev));
  TFC_RETURN_IF_ERROR(
      MeasureCodes<FieldCodes>(buffers.choice_dev, keys_dev, k_dev, buffers.codes, stream));
  return PlaceCodeBlocks(k_dev, buffers.codes, stream);
}

Status EncodePrefixedDeltas(const uint32_t* keys_dev, const uint32_t* k_dev,
                            const DeltaWriteBuffers& buffers, unsigned char* section_dev,
                            cudaStream_t stream) {
  const CodeWriteBuffers& codes = buffers.codes;
  TFC_RETURN_IF_ERROR(ClearCodeSection(k_dev, codes, stream));
  TFC_RETURN_IF_ERROR(WriteCodes<FieldCodes>(buffers.choice_dev, keys_dev, k_dev, codes, stream));
  return StoreCodeSection(k_dev, codes, section_dev, stream);
}

Status TakeDeltaReadBuffers(uint32_t max_k, uint64_t max_bytes, Workspace* workspace,
                            DeltaReadBuffers* buffers) {
  const uint64_t num_tiles = max_k == 0 ? 0 : NumWalkTiles(max_k, max_bytes);
  buffers->reading_dev = workspace->Take<DeltaReading>(1);
  buffers->layouts_dev = workspace->Take<DeltaLayout>(size_t{1} << kMaxHuffmanBits);
  buffers->distances_dev = workspace->Take<uint32_t>(num_tiles);
  return TakeCodeReadBuffers(max_k, max_bytes, workspace, &buffers->codes);
}

Status DecodePrefixedDeltas(bool is_adaptive, const unsigned char* section_dev,
                            const CodeList& list, const DeltaReadBuffers& buffers, uint32_t bits,
                            uint32_t* error_dev, uint32_t* keys_dev, cudaStream_t stream) {
  const CodeReadBuffers& codes = buffers.codes;
  const LayoutCodes::Source source = {buffers.reading_dev, buffers.layouts_dev};
  const uint64_t num_tiles = NumWalkTiles(list.num_items, list.num_bytes);
  TFC_RETURN_IF_ERROR(LoadCodeSection(section_dev, list, codes, stream));
  TFC_RETURN_IF_ERROR(Launch("read scheme", ReadSchemeKernel, 1, kBlockThreads, stream, is_adaptive,
                             list, codes.words_dev, bits, error_dev, buffers.reading_dev,
                             codes.section_dev, buffers.layouts_dev));
  TFC_RETURN_IF_ERROR(FindCodeBlocks(list, codes, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(WalkTiles<LayoutCodes>(source, list, codes, error_dev, stream));
  TFC_RETURN_IF_ERROR(FollowWalk(list, codes, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("decode deltas", DecodeDeltasKernel, num_tiles, stream, source,
                                    list, codes.section_dev, codes.begins_dev, codes.starts_dev,
                                    codes.words_dev, bits, error_dev, keys_dev,
                                    buffers.distances_dev));
  TFC_RETURN_IF_ERROR(LaunchWarps("sum distances", SumDistancesKernel,
                                  NumCodeBlocks(list.num_items), stream, list, buffers.reading_dev,
                                  codes.section_dev, codes.begins_dev, codes.words_dev, bits,
                                  error_dev, buffers.distances_dev));
  return LaunchWarps("add tile begins", AddTileBeginsKernel, num_tiles, stream, list,
                     codes.section_dev, codes.begins_dev, codes.starts_dev, buffers.distances_dev,
                     error_dev, keys_dev);
}

}  // namespace device
}  // namespace tfcompress
