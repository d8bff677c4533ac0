#include <algorithm>

#include "core/codec.h"
#include "cuda/code_walk.h"
#include "cuda/rle.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

// Stands for every length above the maximum; small enough that a sum of k of them does not
// overflow.
constexpr uint64_t kTooLong = kMaxElements + 1;

__global__ void ReadRleHeaderKernel(RleSectionView view, const uint32_t* words, uint32_t bits,
                                    uint32_t* error, RleReading* reading, CodeHead* head) {
  if (ThisThread() != 0) return;
  if (view.num_bytes < kRleHeaderBytes) {
    atomicOr(error, bits);
    return;
  }
  const uint64_t first = PeekBits(words, 0);
  const RleHeader header = {static_cast<uint32_t>(first), static_cast<uint8_t>(first >> 32),
                            static_cast<uint8_t>(first >> 40)};
  if (!header.IsPossible(view.k, view.num_bytes - kRleHeaderBytes)) {
    atomicOr(error, bits);
    return;
  }
  reading->header = header;
  reading->num_states = uint32_t{header.zero_bits} + header.one_bits + 2;
  // A code may take the whole rest of the section.
  *head = {kRleHeaderBytes, view.num_bytes, ~0u};
}

// ---- Where codes are ----------------------------------------------------------------------------

// Inputs of the kernels that run after the blocks are found.
struct RleSource {
  RleSectionView view;
  CodeExtent extent;
  const uint32_t* words;
  const RleReading* reading;
  const CodeStream* blocks;

  __device__ StreamMap Map() const { return StreamMap(blocks, extent.num_streams); }
};

// Position of the first set bit of [begin, end); `end` if there is none or if the range is empty.
__device__ uint64_t NextOne(const uint32_t* words, uint64_t begin, uint64_t end) {
  for (; begin < end; begin += 64) {
    const uint64_t window = PeekBits(words, begin);
    if (window == 0) continue;
    const uint64_t one = begin + static_cast<uint64_t>(__ffsll(static_cast<long long>(window)) - 1);
    return one < end ? one : end;
  }
  return end;
}

// Position at which a unary part begins or continues; everything before it has been read.
struct RlePlace {
  bool is_of_ones;
  uint64_t position;
};

// States at the begin of a tile. The first half are those in which the next unary part is of a run
// of zeros, numbered by the bits of the code before that precede it; the second half the same for
// ones.
class RleStates {
 public:
  __device__ explicit RleStates(const RleReading& reading)
      : zero_bits_(reading.header.zero_bits), one_bits_(reading.header.one_bits) {}

  __device__ RlePlace PlaceOf(uint32_t state, uint64_t begin) const {
    if (state <= one_bits_) return {false, begin + state};
    return {true, begin + state - one_bits_ - 1};
  }
  // The state of a place that is not before `begin`.
  __device__ uint32_t StateOf(const RlePlace& place, uint64_t begin) const {
    const auto num_left = static_cast<uint32_t>(place.position - begin);
    return place.is_of_ones ? one_bits_ + 1 + num_left : num_left;
  }
  // Walks from a place in the tile that ends at `end` to a place not before `end`. Calls on_code()
  // with the end of each code whose unary part ends before `end`.
  template <typename OnCode>
  __device__ RlePlace Walk(const uint32_t* words, RlePlace place, uint64_t end,
                           const OnCode& on_code) const {
    while (place.position < end) {
      const uint64_t one = NextOne(words, place.position, end);
      if (one == end) return {place.is_of_ones, end};
      place.position = one + 1 + (place.is_of_ones ? one_bits_ : zero_bits_);
      place.is_of_ones = !place.is_of_ones;
      on_code(place.position);
    }
    return place;
  }

 private:
  uint32_t zero_bits_;
  uint32_t one_bits_;
};

// One thread for each state of each tile. A whole block ends in state 0, in which each block
// begins.
__global__ void MapRleTilesKernel(RleSource source, const uint32_t* error, uint32_t* maps) {
  if (HasError(error)) return;
  const StreamMap map = source.Map();
  const RleStates states(*source.reading);
  const uint64_t num_states = source.reading->num_states;
  for (uint64_t walk = ThisThread(); walk < source.extent.num_tiles() * num_states;
       walk += NumThreads()) {
    const uint64_t i = walk / num_states;
    const auto state = static_cast<uint32_t>(walk % num_states);
    const WalkTile tile = map.At(i);
    uint32_t after = state;
    if (tile.exists()) {
      const RlePlace begin = states.PlaceOf(state, tile.begin);
      const RlePlace end = states.Walk(source.words, begin, tile.end, [](uint64_t) {});
      after = states.StateOf(end, tile.end);
    }
    MapOf(maps, i)[state] = static_cast<uint8_t>(after);
  }
}

// One thread per tile.
__global__ void CountRleCodesKernel(RleSource source, const uint8_t* states_of,
                                    const uint32_t* error, uint32_t* code_ends, uint64_t* counts) {
  if (HasError(error)) return;
  const StreamMap map = source.Map();
  const RleStates states(*source.reading);
  for (uint64_t i = ThisThread(); i < source.extent.num_tiles(); i += NumThreads()) {
    const WalkTile tile = map.At(i);
    uint64_t count = 0, last_end = tile.begin;
    if (tile.exists()) {
      states.Walk(source.words, states.PlaceOf(states_of[i], tile.begin), tile.end,
                  [&](uint64_t end) {
                    ++count;
                    last_end = end;
                  });
    }
    counts[i] = count;
    code_ends[i] = static_cast<uint32_t>(last_end - tile.begin);
  }
}

// The codes of tiles, after counting and scanning.
struct RleCodes {
  const uint64_t* before;  // Codes before each tile.
  const uint32_t* ends;

  // End of the last code of the block before a tile, or the begin of the block if there is none.
  // The tile may be the one after the block's last.
  __device__ uint64_t EndBefore(const StreamMap& map, uint64_t block, uint64_t tile) const {
    const uint64_t first = map.FirstTile(block);
    if (before[tile] == before[first]) return map.TileOf(block, first).begin;
    const uint64_t last =
        FirstAfter(first, tile, [&](uint64_t i) { return before[i + 1] >= before[tile]; });
    return map.TileOf(block, last).begin + ends[last];
  }
};

// Checks that a block has two codes for each run and that they end in its last byte. The padding
// bits are zero, or there would be more codes. One thread per block.
__global__ void CheckRleBlocksKernel(RleSource source, RleCodes codes, uint32_t bits,
                                     uint32_t* error) {
  if (HasError(error)) return;
  const StreamMap map = source.Map();
  bool is_valid = true;
  for (uint64_t block = ThisThread(); block < source.extent.num_streams; block += NumThreads()) {
    const CodeStream& stream = source.blocks[block];
    if (stream.num_items == 0) continue;
    const uint64_t first = map.FirstTile(block);
    const uint64_t end = first + map.NumTiles(block);
    is_valid &= codes.before[end] - codes.before[first] == 2 * stream.num_items &&
                (codes.EndBefore(map, block, end) + 7) / 8 == stream.end;
  }
  if (!is_valid) atomicOr(error, bits);
}

// ---- Runs ---------------------------------------------------------------------------------------

// Calls body(i, length) with the codes of a tile, on one thread: code i belongs to run i / 2, of
// zeros if i is even. A length is exact, or above kMaxElements.
template <typename Body>
__device__ void ForEachLength(const RleSource& source, const RleCodes& codes, const StreamMap& map,
                              uint64_t tile_number, const Body& body) {
  const uint64_t end = codes.before[tile_number + 1];
  uint64_t i = codes.before[tile_number];
  if (i == end) return;
  const WalkTile tile = map.At(tile_number);
  const RleHeader header = source.reading->header;
  uint64_t begin = codes.EndBefore(map, tile.stream, tile_number);
  for (; i < end; ++i) {
    const uint64_t one = NextOne(source.words, begin > tile.begin ? begin : tile.begin, tile.end);
    const uint32_t r = i % 2 == 0 ? header.zero_bits : header.one_bits;
    const uint64_t unary = one - begin < kTooLong ? one - begin : kTooLong;
    const uint64_t low = PeekBits(source.words, one) >> 1 & ((uint64_t{1} << r) - 1);
    const uint64_t length = (unary << r | low) + (i > 0 ? 1 : 0);
    body(i, length < kTooLong ? length : kTooLong);
    begin = one + 1 + r;
  }
}

// One thread per tile.
__global__ void SumRunsKernel(RleSource source, RleCodes codes, const uint32_t* error,
                              uint64_t* num_zeros, uint64_t* num_ones) {
  if (HasError(error)) return;
  const StreamMap map = source.Map();
  for (uint64_t tile = ThisThread(); tile < source.extent.num_tiles(); tile += NumThreads()) {
    uint64_t zeros = 0, ones = 0;
    ForEachLength(source, codes, map, tile,
                  [&](uint64_t i, uint64_t length) { (i % 2 == 0 ? zeros : ones) += length; });
    num_zeros[tile] = zeros;
    num_ones[tile] = ones;
  }
}

__global__ void CheckRunsKernel(RleSectionView view, const uint64_t* num_zeros,
                                const uint64_t* num_ones, uint32_t bits, uint32_t* error) {
  if (ThisThread() != 0 || *error != 0) return;
  if (*num_ones != view.k || *num_zeros + *num_ones > view.n) atomicOr(error, bits);
}

// Finds the zeros and ones before each run of ones. One thread per tile.
__global__ void PlaceRunsKernel(RleSource source, RleCodes codes, const uint64_t* zeros_before,
                                const uint64_t* ones_before, const uint32_t* error,
                                uint32_t* run_zeros, uint32_t* run_ones) {
  if (HasError(error)) return;
  const StreamMap map = source.Map();
  for (uint64_t tile = ThisThread(); tile < source.extent.num_tiles(); tile += NumThreads()) {
    uint64_t zeros = zeros_before[tile], ones = ones_before[tile];
    ForEachLength(source, codes, map, tile, [&](uint64_t i, uint64_t length) {
      if (i % 2 == 0) {
        zeros += length;
        run_zeros[i / 2] = static_cast<uint32_t>(zeros);
      } else {
        run_ones[i / 2] = static_cast<uint32_t>(ones);
        ones += length;
      }
    });
  }
}

// One warp per tile of indices, whatever the number of its runs.
__global__ void ListRunsKernel(const RleReading* reading, uint32_t k, const uint32_t* run_zeros,
                               const uint32_t* run_ones, const uint32_t* error, uint32_t* indices) {
  if (HasError(error)) return;
  const uint64_t num_runs = reading->header.num_runs;
  // Returns the first run of [begin, end) that begins after the i-th one.
  const auto run_after = [&](uint64_t begin, uint64_t end, uint64_t i) {
    return FirstAfter(begin, end, [&](uint64_t run) { return run_ones[run] > i; });
  };
  for (uint64_t tile = ThisWarp(); tile < NumTiles(k); tile += NumWarps()) {
    const uint64_t begin = tile * kTileElements;
    const uint64_t first = run_after(1, num_runs, begin);
    const uint64_t last = run_after(first, num_runs, begin + kTileElements - 1);
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = begin + row + ThisLane();
      if (i < k) indices[i] = static_cast<uint32_t>(i) + run_zeros[run_after(first, last, i) - 1];
    }
  }
}

Status FindBlocks(const RleSource& source, const RleReadBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, cudaStream_t stream) {
  const RleSectionView& view = source.view;
  TFC_RETURN_IF_ERROR(LoadSection(view.data_dev, view.num_bytes, buffers.words_dev, stream));
  TFC_RETURN_IF_ERROR(Launch("read rle header", ReadRleHeaderKernel, 1, kWarpThreads, stream, view,
                             buffers.words_dev, bits, error_dev, buffers.reading_dev,
                             buffers.head_dev));
  const KeyLists runs = KeyLists::One(&buffers.reading_dev->header.num_runs,
                                      static_cast<uint32_t>(source.extent.num_items));
  return FindCodeBlocks(runs, buffers.head_dev, source.extent, buffers.words_dev, bits, error_dev,
                        buffers.streams_dev, stream);
}

// Finds the codes of each tile, and checks them against the blocks.
Status FindCodes(const RleSource& source, const RleReadBuffers& buffers, uint32_t bits,
                 uint32_t* error_dev, cudaStream_t stream) {
  const uint64_t num_tiles = source.extent.num_tiles();
  TFC_RETURN_IF_ERROR(LaunchWarps("map rle tiles", MapRleTilesKernel, num_tiles, stream, source,
                                  error_dev, buffers.maps.maps_dev));
  TFC_RETURN_IF_ERROR(
      FollowMaps(num_tiles, &buffers.reading_dev->num_states, buffers.maps, error_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("count rle codes", CountRleCodesKernel, num_tiles, stream,
                                    source, buffers.maps.states_dev, error_dev,
                                    buffers.code_ends_dev, buffers.counts_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.counts_dev, num_tiles, buffers.scan_storage, stream));
  const RleCodes codes = {buffers.counts_dev, buffers.code_ends_dev};
  return LaunchThreads("check rle blocks", CheckRleBlocksKernel, source.extent.num_streams, stream,
                       source, codes, bits, error_dev);
}

// Finds the positions of the runs from the codes.
Status FindRuns(const RleSource& source, const RleReadBuffers& buffers, uint32_t bits,
                uint32_t* error_dev, cudaStream_t stream) {
  const RleCodes codes = {buffers.counts_dev, buffers.code_ends_dev};
  const uint64_t num_tiles = source.extent.num_tiles();
  TFC_RETURN_IF_ERROR(LaunchThreads("sum runs", SumRunsKernel, num_tiles, stream, source, codes,
                                    error_dev, buffers.zeros_dev, buffers.ones_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.zeros_dev, num_tiles, buffers.scan_storage, stream));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ones_dev, num_tiles, buffers.scan_storage, stream));
  TFC_RETURN_IF_ERROR(Launch("check runs", CheckRunsKernel, 1, kWarpThreads, stream, source.view,
                             buffers.zeros_dev + num_tiles, buffers.ones_dev + num_tiles, bits,
                             error_dev));
  return LaunchThreads("place runs", PlaceRunsKernel, num_tiles, stream, source, codes,
                       buffers.zeros_dev, buffers.ones_dev, error_dev, buffers.run_zeros_dev,
                       buffers.run_ones_dev);
}

}  // namespace

CodeExtent RleExtentOf(uint64_t k, uint64_t num_bytes) {
  // A run takes at least two bits.
  return ExtentOf(1, static_cast<uint32_t>(std::min(k, 4 * num_bytes)), num_bytes);
}

Status TakeRleReadBuffers(const CodeExtent& max_extent, Workspace* workspace,
                          RleReadBuffers* buffers) {
  const uint64_t max_tiles = max_extent.num_tiles();
  buffers->reading_dev = workspace->Take<RleReading>(1);
  buffers->head_dev = workspace->Take<CodeHead>(1);
  buffers->words_dev = workspace->Take<uint32_t>(NumSectionWords(max_extent.num_bytes));
  buffers->streams_dev = workspace->Take<CodeStream>(max_extent.num_streams);
  TakeStateMaps(max_tiles, workspace, &buffers->maps);
  buffers->code_ends_dev = workspace->Take<uint32_t>(max_tiles);
  buffers->counts_dev = workspace->Take<uint64_t>(max_tiles + 1);
  buffers->zeros_dev = workspace->Take<uint64_t>(max_tiles + 1);
  buffers->ones_dev = workspace->Take<uint64_t>(max_tiles + 1);
  buffers->run_zeros_dev = workspace->Take<uint32_t>(max_extent.num_items);
  buffers->run_ones_dev = workspace->Take<uint32_t>(max_extent.num_items);
  return TakeScanStorage(max_tiles, workspace, &buffers->scan_storage);
}

Status ReadRuns(const RleSectionView& section, const RleReadBuffers& buffers, uint32_t bits,
                uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream) {
  const RleSource source = {section, RleExtentOf(section.k, section.num_bytes), buffers.words_dev,
                            buffers.reading_dev, buffers.streams_dev};
  TFC_RETURN_IF_ERROR(FindBlocks(source, buffers, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(FindCodes(source, buffers, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(FindRuns(source, buffers, bits, error_dev, stream));
  return LaunchWarps("list runs", ListRunsKernel, NumTiles(section.k), stream, buffers.reading_dev,
                     section.k, buffers.run_zeros_dev, buffers.run_ones_dev, error_dev,
                     indices_dev);
}

}  // namespace device
}  // namespace tfcompress
