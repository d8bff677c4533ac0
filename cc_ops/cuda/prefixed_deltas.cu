#include "cuda/bit_strings.h"
#include "cuda/canonical_words.h"
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

// Adds a warp's counts to those of a list, and clears them.
__device__ void FlushCounts(uint32_t* own, uint32_t* counts) {
  __syncwarp();
  if (own[ThisLane()] != 0) atomicAdd(&counts[ThisLane()], own[ThisLane()]);
  own[ThisLane()] = 0;
  __syncwarp();
}

// A warp takes consecutive tiles, which are mostly of one list. Consecutive deltas often have the
// same size.
__global__ void CountDeltaBitsKernel(KeyLists lists, uint64_t max_tiles, const uint32_t* keys,
                                     uint32_t* counts) {
  __shared__ uint32_t of_warps[kBlockWarps][kMaxDeltaBits];
  static_assert(kMaxDeltaBits == kWarpThreads);
  uint32_t* own = of_warps[threadIdx.x / kWarpThreads];
  own[ThisLane()] = 0;
  __syncwarp();
  const uint64_t begin = max_tiles * ThisWarp() / NumWarps();
  const uint64_t end = max_tiles * (ThisWarp() + 1) / NumWarps();
  uint32_t list = 0;
  for (uint64_t t = begin; t < end; ++t) {
    const KeyTile tile = lists.At(t);
    if (tile.list != list) FlushCounts(own, counts + list * kMaxDeltaBits);
    list = tile.list;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile.FirstKey() + row + ThisLane();
      const bool has_one = i < tile.size;
      const int num_bits = has_one ? DeltaBits(DeltaAt(keys + tile.begin, i)) : 1;
      CountBuckets(static_cast<uint32_t>(num_bits - 1), has_one, own);
    }
  }
  FlushCounts(own, counts + list * kMaxDeltaBits);
}

// Chooses the scheme and writes its header, on one thread, from the costs of the candidates.
__device__ void ChooseAdaptive(const uint64_t* costs, AdaptiveSpace* spaces, WordWriter* header,
                               DeltaScheme* scheme) {
  const int best = CheapestCandidate(costs);
  const DeltaPrefix prefix = DeltaPrefix::Candidate(best);
  SetAdaptiveScheme(prefix.num_intervals(), &spaces[best], scheme);
  header->Write(prefix.kind(), 8);
  if (prefix.is_huffman) WriteLengthRuns(scheme->lengths, scheme->num_classes, header);
}

__device__ void ChooseFlags(int flag_bits, const uint64_t* counts, AdaptiveSpace* space,
                            WordWriter* header, DeltaScheme* scheme) {
  const int largest_bits = LargestDeltaBits(counts);
  SetFlagScheme(flag_bits, largest_bits, space->next_words, scheme);
  header->Write(static_cast<uint64_t>(flag_bits), 8);
  header->Write(static_cast<uint64_t>(largest_bits), 8);
}

// One warp per list, one lane per candidate.
__global__ void ChooseSchemesKernel(DeltaCoding coding, KeyLists lists, const uint32_t* counts_of,
                                    DeltaChoice* choices, CodeListSize* sizes) {
  __shared__ uint64_t counts[kMaxDeltaBits + 1];
  __shared__ AdaptiveSpace spaces[kNumDeltaPrefixes];
  __shared__ uint64_t costs[kNumDeltaPrefixes];
  __shared__ DeltaScheme scheme;
  const uint32_t list = blockIdx.x;
  const uint32_t lane = ThisLane();
  DeltaChoice* choice = &choices[list];
  counts[lane + 1] = counts_of[list * kMaxDeltaBits + lane];
  if (lane < kDeltaHeaderWords) choice->header[lane] = 0;
  __syncwarp();
  if (coding.is_adaptive && lane < kNumDeltaPrefixes) {
    const DeltaPrefix prefix = DeltaPrefix::Candidate(static_cast<int>(lane));
    costs[lane] = CostOf(counts, prefix, &spaces[lane]).total();
  }
  __syncwarp();
  if (lane == 0) {
    WordWriter header = {choice->header};
    if (coding.is_adaptive) {
      ChooseAdaptive(costs, spaces, &header, &scheme);
    } else {
      ChooseFlags(coding.flag_bits, counts, spaces, &header, &scheme);
    }
    choice->num_header_bytes = static_cast<uint32_t>(BytesOfBits(header.position));
    const uint64_t num_blocks = NumCodeBlocks(lists.SizeOf(list));
    sizes[list].blocks_begin =
        choice->num_header_bytes + (num_blocks == 0 ? 0 : 4 * (num_blocks - 1));
  }
  __syncwarp();
  const int num_bits = static_cast<int>(lane) + 1;
  if (num_bits <= scheme.max_width()) choice->fields[num_bits] = DeltaFieldOf(scheme, num_bits);
}

class FieldCodes {
 public:
  using Source = const DeltaChoice*;

  __device__ FieldCodes(Source choices, uint32_t list) : choice_(choices + list) {}

  __device__ ItemCode At(const uint32_t* keys, uint64_t i) const {
    const uint32_t delta = DeltaAt(keys, i);
    const DeltaField field = choice_->fields[DeltaBits(delta)];
    return {field.prefix | static_cast<uint64_t>(delta) << field.num_prefix_bits, field.num_bits};
  }
  // Writes the header of the list, and the last keys of all blocks but the last.
  __device__ void WriteHead(const uint32_t* keys, uint64_t block, bool is_last, uint64_t begin,
                            uint32_t* words) const {
    for (uint32_t i = 0; block == 0 && i < kDeltaHeaderWords; ++i)
      OrBits(words, 8 * begin + 32 * i, choice_->header[i]);
    if (!is_last)
      OrBits(words, 8 * (begin + choice_->num_header_bytes + 4 * block),
             keys[(block + 1) * kCodeBlockItems - 1]);
  }

 private:
  const DeltaChoice* choice_;
};

// ---- Decoding -----------------------------------------------------------------------------------

__device__ bool ReadAdaptive(WordReader* reader, AdaptiveSpace* space, DeltaScheme* scheme) {
  const auto kind = static_cast<uint8_t>(reader->Peek());
  reader->Skip(8);
  if (kind >= kNumDeltaPrefixes || !reader->Finish()) return false;
  const DeltaPrefix prefix = DeltaPrefix::OfKind(kind);
  const uint32_t m = prefix.num_intervals();
  for (uint32_t i = 0; i < m; ++i)
    space->lengths[i] = static_cast<uint8_t>(prefix.log_intervals + 1);
  if (prefix.is_huffman && !ReadWordLengths(m, reader, space->lengths)) return false;
  SetAdaptiveScheme(m, space, scheme);
  return true;
}

__device__ bool ReadFlags(WordReader* reader, AdaptiveSpace* space, DeltaScheme* scheme) {
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

// Reads the header of a list of some keys, on one lane: headers are short. Returns false if it is
// invalid.
__device__ bool ReadScheme(bool is_adaptive, uint64_t num_keys, WordReader* reader,
                           AdaptiveSpace* space, DeltaScheme* scheme, DeltaReading* reading,
                           CodeHead* head) {
  const bool is_valid =
      is_adaptive ? ReadAdaptive(reader, space, scheme) : ReadFlags(reader, space, scheme);
  if (!is_valid) return false;
  SetCode(scheme->lengths, scheme->num_classes, space->next_words, &reading->prefixes,
          [&](uint32_t place, uint32_t c) { reading->widths[place] = scheme->widths[c]; });
  reading->last_keys_begin = reader->position / 8;
  head->blocks_begin = reader->position / 8 + 4 * (NumCodeBlocks(num_keys) - 1);
  head->max_code_bits = MaxCodeBits(*scheme);
  return true;
}

// Lists what codes begin with, on all lanes.
__device__ void ListDirect(DeltaReading* reading) {
  for (uint32_t bits = ThisLane(); bits < 1u << DeltaReading::kDirectBits; bits += kWarpThreads) {
    const CanonicalWord prefix = ReadWord(reading->prefixes, bits);
    const bool is_short = prefix.length <= DeltaReading::kDirectBits;
    reading->direct[bits] = static_cast<uint16_t>(
        is_short ? prefix.length | uint32_t{reading->widths[prefix.place]} << 8 : 0);
  }
}

// One warp per list.
__global__ void ReadSchemesKernel(bool is_adaptive, KeyLists lists, CodeSections sections,
                                  const uint32_t* words, uint32_t bits, uint32_t* error,
                                  DeltaReading* readings, CodeHead* heads) {
  __shared__ AdaptiveSpace spaces[kBlockWarps];
  __shared__ DeltaScheme schemes[kBlockWarps];
  AdaptiveSpace* space = &spaces[threadIdx.x / kWarpThreads];
  DeltaScheme* scheme = &schemes[threadIdx.x / kWarpThreads];
  for (uint64_t i = ThisWarp(); i < lists.num_lists; i += NumWarps()) {
    const auto list = static_cast<uint32_t>(i);
    const uint64_t begin = sections.BeginOf(list);
    const uint64_t end = begin + sections.NumBytesOf(list);
    const uint32_t num_keys = lists.SizeOf(list);
    bool is_valid = false;
    if (ThisLane() == 0) {
      heads[list] = {begin, end, 0};
      WordReader reader = {words, end, 8 * begin};
      is_valid = num_keys > 0 && ReadScheme(is_adaptive, num_keys, &reader, space, scheme,
                                            &readings[list], &heads[list]);
      if (num_keys > 0 && !is_valid) atomicOr(error, bits);
    }
    __syncwarp();
    if (__any_sync(kAllLanes, is_valid) != 0) ListDirect(&readings[list]);
    __syncwarp();
  }
}

// What a code begins with says.
struct DeltaLayout {
  uint8_t num_prefix_bits;
  uint8_t width;
};

class PrefixCodes {
 public:
  using Source = const DeltaReading*;

  __device__ PrefixCodes(Source readings, uint32_t list) : reading_(readings + list) {}

  __device__ DeltaLayout At(uint64_t window) const {
    constexpr uint32_t kDirectMask = (1u << DeltaReading::kDirectBits) - 1;
    const uint16_t direct = reading_->direct[window & kDirectMask];
    if (direct != 0)
      return {static_cast<uint8_t>(direct & 0xFF), static_cast<uint8_t>(direct >> 8)};
    const CanonicalWord prefix = ReadWord(reading_->prefixes, window);
    return {static_cast<uint8_t>(prefix.length), reading_->widths[prefix.place]};
  }
  __device__ uint32_t Length(uint64_t window) const {
    const DeltaLayout layout = At(window);
    return uint32_t{layout.num_prefix_bits} + layout.width;
  }

 private:
  const DeltaReading* reading_;
};

// Decodes the keys of each tile as if it were the first one, and the sum of its deltas. One thread
// per tile.
__global__ void DecodeDeltasKernel(const DeltaReading* readings, CodeExtent extent,
                                   CodeReadBuffers buffers, uint32_t bits, uint32_t* error,
                                   uint32_t* keys, uint32_t* distances) {
  if (HasError(error)) return;
  const StreamMap map(buffers.streams_dev, extent.num_streams);
  for (uint64_t i = ThisThread(); i < extent.num_tiles(); i += NumThreads()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    const CodeStream& stream = buffers.streams_dev[tile.stream];
    const PrefixCodes codes(readings, stream.list);
    uint32_t* stream_keys = keys + stream.first_item;
    uint32_t distance = 0;
    const auto decode = [&](uint64_t item, uint64_t window) -> uint32_t {
      const DeltaLayout layout = codes.At(window);
      const uint64_t above = ~uint64_t{0} << layout.width;
      distance += static_cast<uint32_t>(window >> layout.num_prefix_bits & ~above);
      stream_keys[item] = distance;
      return uint32_t{layout.num_prefix_bits} + layout.width;
    };
    const bool is_whole = DecodeTile(stream, tile, buffers.starts_dev[i], buffers.words_dev,
                                     buffers.list_ends_dev, decode);
    distances[i] = distance;
    if (!is_whole) atomicOr(error, bits);
  }
}

__device__ uint32_t LastKey(const DeltaReading& reading, const uint32_t* words, uint64_t block) {
  return static_cast<uint32_t>(PeekBits(words, 8 * (reading.last_keys_begin + 4 * block)));
}

// Sums up the beginnings of the tiles of each block, and checks that the last key of the block is
// the one in the section. One warp per block.
__global__ void SumDistancesKernel(const DeltaReading* readings, CodeExtent extent,
                                   const CodeStream* streams, const uint32_t* words, uint32_t bits,
                                   uint32_t* error, uint32_t* distances) {
  if (HasError(error)) return;
  const StreamMap map(streams, extent.num_streams);
  for (uint64_t s = ThisWarp(); s < extent.num_streams; s += NumWarps()) {
    const CodeStream& stream = streams[s];
    if (stream.num_items == 0) continue;
    const DeltaReading& reading = readings[stream.list];
    uint32_t key = stream.block == 0 ? 0 : LastKey(reading, words, stream.block - 1);
    const uint64_t end = map.FirstTile(s) + map.NumTiles(s);
    for (uint64_t row = map.FirstTile(s); row < end; row += kWarpThreads) {
      const uint64_t i = row + ThisLane();
      const uint32_t own = i < end ? distances[i] : 0;
      const uint32_t up_to_own = InclusiveSum(own);
      if (i < end) distances[i] = key + up_to_own - own;
      key += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
    if (!stream.is_open && key != LastKey(reading, words, stream.block) && ThisLane() == 0)
      atomicOr(error, bits);
  }
}

// One warp per tile.
__global__ void AddTileBeginsKernel(CodeExtent extent, const CodeStream* streams,
                                    const WalkStart* starts, const uint32_t* distances,
                                    const uint32_t* error, uint32_t* keys) {
  if (HasError(error)) return;
  const StreamMap map(streams, extent.num_streams);
  for (uint64_t i = ThisWarp(); i < extent.num_tiles(); i += NumWarps()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    const CodeStream& stream = streams[tile.stream];
    const bool is_last = i + 1 == map.FirstTile(tile.stream) + map.NumTiles(tile.stream);
    const uint64_t end = is_last ? stream.num_items : starts[i + 1].first_item;
    uint32_t* stream_keys = keys + stream.first_item;
    for (uint64_t item = starts[i].first_item + ThisLane(); item < end; item += kWarpThreads)
      stream_keys[item] += distances[i];
  }
}

}  // namespace

void TakeDeltaWriteBuffers(uint32_t num_lists, uint32_t max_k, uint64_t max_bytes,
                           Workspace* workspace, DeltaWriteBuffers* buffers) {
  buffers->counts_dev = workspace->Take<uint32_t>(uint64_t{num_lists} * kMaxDeltaBits);
  buffers->choices_dev = workspace->Take<DeltaChoice>(num_lists);
  TakeCodeWriteBuffers(num_lists, max_k, max_bytes, workspace, &buffers->codes);
}

Status MeasurePrefixedDeltas(const DeltaCoding& coding, const KeyLists& lists,
                             const uint32_t* keys_dev, const DeltaWriteBuffers& buffers,
                             cudaStream_t stream) {
  const CodeWriteBuffers& codes = buffers.codes;
  TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(
      buffers.counts_dev, 0, uint64_t{lists.num_lists} * kMaxDeltaBits * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("count delta bits", CountDeltaBitsKernel, codes.max_tiles, stream,
                                  lists, codes.max_tiles, keys_dev, buffers.counts_dev));
  TFC_RETURN_IF_ERROR(Launch("choose schemes", ChooseSchemesKernel, lists.num_lists, kWarpThreads,
                             stream, coding, lists, buffers.counts_dev, buffers.choices_dev,
                             codes.sizes_dev));
  TFC_RETURN_IF_ERROR(MeasureCodes<FieldCodes>(buffers.choices_dev, lists, codes.max_tiles,
                                               keys_dev, codes.tile_begins_dev, stream));
  return PlaceCodeBlocks(lists, codes, stream);
}

Status WritePrefixedDeltas(const KeyLists& lists, const uint32_t* keys_dev,
                           const DeltaWriteBuffers& buffers, const uint64_t* begins_dev,
                           cudaStream_t stream) {
  return WriteCodes<FieldCodes>(buffers.choices_dev, lists, buffers.codes, keys_dev, begins_dev,
                                stream);
}

void TakeDeltaReadBuffers(uint32_t num_lists, const CodeExtent& max_extent, Workspace* workspace,
                          DeltaReadBuffers* buffers) {
  buffers->readings_dev = workspace->Take<DeltaReading>(num_lists);
  buffers->heads_dev = workspace->Take<CodeHead>(num_lists);
  buffers->distances_dev = workspace->Take<uint32_t>(max_extent.num_tiles());
  TakeCodeReadBuffers(num_lists, max_extent, workspace, &buffers->codes);
}

Status DecodePrefixedDeltas(bool is_adaptive, const KeyLists& lists, const CodeSections& sections,
                            const DeltaReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                            uint32_t* keys_dev, cudaStream_t stream) {
  const CodeReadBuffers& codes = buffers.codes;
  const CodeExtent extent = ExtentOf(lists.num_lists, lists.max_keys, sections.num_bytes);
  TFC_RETURN_IF_ERROR(LoadSections(sections, lists.num_lists, codes.words_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("read schemes", ReadSchemesKernel, lists.max_used_lists(), stream,
                                  is_adaptive, lists, sections, codes.words_dev, bits, error_dev,
                                  buffers.readings_dev, buffers.heads_dev));
  TFC_RETURN_IF_ERROR(FindCodeBlocks(lists, buffers.heads_dev, extent, codes.words_dev, bits,
                                     error_dev, codes.streams_dev, stream));
  TFC_RETURN_IF_ERROR(
      WalkTiles<PrefixCodes>(buffers.readings_dev, extent, codes, error_dev, stream));
  TFC_RETURN_IF_ERROR(FollowWalk(extent, codes, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("decode deltas", DecodeDeltasKernel, extent.max_used_tiles(),
                                    stream, buffers.readings_dev, extent, codes, bits, error_dev,
                                    keys_dev, buffers.distances_dev));
  TFC_RETURN_IF_ERROR(LaunchWarps("sum distances", SumDistancesKernel, extent.max_used_streams(),
                                  stream, buffers.readings_dev, extent, codes.streams_dev,
                                  codes.words_dev, bits, error_dev, buffers.distances_dev));
  return LaunchWarps("add tile begins", AddTileBeginsKernel, extent.max_used_tiles(), stream,
                     extent, codes.streams_dev, codes.starts_dev, buffers.distances_dev, error_dev,
                     keys_dev);
}

}  // namespace device
}  // namespace tfcompress
