#include <type_traits>

#include "core/bit_io.h"
#include "core/float_order.h"
#include "core/value/block_int_levels.h"
#include "cuda/binary_search.h"
#include "cuda/launch.h"
#include "cuda/load_volatile.h"
#include "cuda/numbers.h"
#include "cuda/raw_bytes.h"
#include "cuda/tile_sums.h"
#include "cuda/tiles.h"
#include "cuda/value_codes.h"

namespace tfcompress {
namespace device {
namespace {

// What a launch sums: the frames of tensor blockIdx.y are each num_tensors-th of a table.
struct SummedFrames {
  const AddedValues* values;
  uint32_t num_tensors;
  uint32_t num_values;
  SumStep step;
  float scale;
  uint32_t bits;

  __device__ const AddedValues& First() const { return values[blockIdx.y]; }
  // What the i-th sum is before, and after.
  __device__ float Begin(uint64_t i) const { return step.is_first ? 0 : First().sum_dev[i]; }
  __device__ void End(uint64_t i, float sum) const {
    const AddedValues& first = First();
    if (!step.is_last || first.dtype == DType::kFloat32) {
      first.sum_dev[i] = sum;
    } else {
      static_cast<uint16_t*>(first.out_dev)[i] =
          first.dtype == DType::kFloat16 ? NarrowHalf(sum) : FloatToBFloat16(sum);
    }
  }
};

// ---- Any values ---------------------------------------------------------------------------------

// Readers of the i-th value of a section; of so many, a lane reads all before it adds the first.
class NumberReader {
 public:
  static constexpr uint32_t kAtOnce = kLoadsAtOnce;

  __device__ explicit NumberReader(const AddedValues& added) : section_(added.section) {}
  __device__ float operator()(uint64_t i) {
    return DecodeNumber(section_.kind, section_.data_dev, i);
  }

 private:
  ValueSectionView section_;
};

template <typename Codes>
class CodeReader {
 public:
  static constexpr uint32_t kAtOnce = 1;  // More take too many registers.

  // The codec only loads here.
  __device__ explicit CodeReader(const AddedValues& added)
      : codec_(*added.params_dev, const_cast<unsigned char*>(added.section.data_dev), 0) {}
  __device__ float operator()(uint64_t i) { return codec_.Value(codec_.Load(i), i); }

 private:
  Codes codec_;
};

// Positions of a frame's values whose elements are in a tile.
struct Positions {
  uint32_t begin = 0;
  uint32_t end = 0;
};

__device__ Positions FindPositions(const AddedValues& added, uint32_t tile_begin,
                                   uint32_t tile_end) {
  const uint32_t k = added.section.k;
  if (k == 0 || LoadVolatile(added.error_dev) != 0) return {};
  const uint32_t* indices = added.indices_dev;
  if (indices == nullptr) return {tile_begin, tile_end};
  const auto first_from = [&](uint32_t element, uint64_t position, uint64_t end) {
    return FirstAfter(position, end, [&](uint64_t i) { return indices[i] >= element; });
  };
  const uint64_t begin = first_from(tile_begin, 0, k);
  const uint64_t most = begin + (tile_end - tile_begin);  // Indices are distinct.
  const uint64_t end = first_from(tile_end, begin, most < k ? most : k);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

// Adds a frame's values at these positions to the sums of the tile that begins at `begin`.
template <typename Reader>
__device__ void AddPositions(const AddedValues& added, Positions positions, uint32_t begin,
                             const SummedFrames& frames, float* sums) {
  Reader reader(added);
  const uint32_t* indices = added.indices_dev;
  bool finite = true;
  for (uint32_t first = positions.begin + ThisLane(); first < positions.end;
       first += Reader::kAtOnce * kWarpThreads) {
    // Values past the last position are 0 at the tile's first element, and not added.
    float values[Reader::kAtOnce];
    uint32_t elements[Reader::kAtOnce];
    for (uint32_t j = 0; j < Reader::kAtOnce; ++j) {
      const uint32_t i = first + j * kWarpThreads;
      const bool exists = i < positions.end;
      elements[j] = !exists ? begin : indices == nullptr ? i : indices[i];
      values[j] = exists ? reader(i) : 0;
    }
    for (uint32_t j = 0; j < Reader::kAtOnce && first + j * kWarpThreads < positions.end; ++j) {
      finite &= IsFiniteBits(FloatBits(values[j]));
      sums[elements[j] - begin] += frames.scale * values[j];
    }
  }
  if (!finite) atomicOr(added.error_dev, frames.bits);
}

// The lanes find the positions of as many ranks; then all add those of one rank after the other.
// Registers for four blocks on a multiprocessor are enough for nothing to spill.
template <typename Reader>
__global__ void __launch_bounds__(kBlockThreads, 4) SumTilesKernel(SummedFrames frames) {
  __shared__ float sums_of_warps[kBlockWarps][kTileElements];
  float* const sums = sums_of_warps[threadIdx.x / kWarpThreads];
  const uint32_t n = frames.First().n;
  const auto num_tiles = static_cast<uint32_t>(NumTiles(n));
  const uint32_t num_ranks = frames.num_values / frames.num_tensors;
  for (auto tile = static_cast<uint32_t>(ThisWarp()); tile < num_tiles;
       tile += static_cast<uint32_t>(NumWarps())) {
    const uint32_t begin = tile * kTileElements;
    const uint32_t end = n - begin < kTileElements ? n : begin + kTileElements;
    for (uint32_t i = begin + ThisLane(); i < end; i += kWarpThreads)
      sums[i - begin] = frames.Begin(i);
    for (uint32_t first = 0; first < num_ranks; first += kWarpThreads) {
      const AddedValues* const values = &frames.First() + uint64_t{first} * frames.num_tensors;
      const uint32_t count = num_ranks - first < kWarpThreads ? num_ranks - first : kWarpThreads;
      Positions own;
      if (ThisLane() < count)
        own = FindPositions(values[ThisLane() * frames.num_tensors], begin, end);
      for (uint32_t rank = 0; rank < count; ++rank) {
        __syncwarp();  // What lanes added before is there for others.
        const int lane = static_cast<int>(rank);
        const Positions of_rank = {__shfl_sync(kAllLanes, own.begin, lane),
                                   __shfl_sync(kAllLanes, own.end, lane)};
        if (of_rank.begin < of_rank.end)
          AddPositions<Reader>(values[rank * frames.num_tensors], of_rank, begin, frames, sums);
      }
    }
    __syncwarp();
    for (uint32_t i = begin + ThisLane(); i < end; i += kWarpThreads)
      frames.End(i, sums[i - begin]);
    __syncwarp();
  }
}

// ---- All elements, in blocks of integers --------------------------------------------------------

// What a warp keeps of its tile.
struct BlockSumTile {
  float sums[kTileElements];
  // The codes of a rank, as they were sent, and the steps of their blocks.
  uint32_t words[kTileElements * BlockIntLevels::kMaxBits / 32];
  float steps[kTileElements >> BlockIntLevels::kMinBlockBits];
};

// Adds the values of a rank to the sums of the `size` elements of the tile that begins at `begin`.
__device__ void AddTile(const AddedValues& added, float scale, uint64_t begin, uint32_t size,
                        BlockSumTile* tile) {
  const ValueParams& params = *added.params_dev;
  const int num_bits = params.spec.num_bits;
  const int block_bits = BitsFor(params.spec.bucket_size);
  const BlockIntLevels levels(num_bits, params.spec.spacing);
  const unsigned char* scales =
      added.section.data_dev + ValueSpec::HeaderBytes(ValueKind::kBlockInt);
  const uint64_t first_block = begin >> block_bits;
  for (uint32_t block = ThisLane(); block << block_bits < size; block += kWarpThreads)
    tile->steps[block] = levels.Step(LoadAt<uint16_t>(scales, first_block + block));
  LoadByWarp(added.section.data_dev + params.codes_begin + PackedBytes(begin, num_bits),
             static_cast<uint32_t>(PackedBytes(size, num_bits)), tile->words);
  __syncwarp();
  const BitPacking codes(reinterpret_cast<unsigned char*>(tile->words), num_bits);
  const bool are_square = levels.are_square();
  const float middle = levels.Middle();
  for (uint32_t j = ThisLane(); j < size; j += kWarpThreads) {
    const uint32_t code = codes.Load(j);
    const float step = tile->steps[j >> block_bits];
    const float value = are_square ? BlockIntLevels::ValueOfSquare(code, middle, step)
                                   : BlockIntLevels::ValueOfEven(code, middle, step);
    tile->sums[j] += scale * value;
  }
  __syncwarp();
}

// Scales have been checked, so that all values are finite, and no error is set meanwhile.
__global__ void __launch_bounds__(kBlockThreads) SumBlockIntsKernel(SummedFrames frames) {
  __shared__ BlockSumTile tiles[kBlockWarps];
  BlockSumTile* const tile = &tiles[threadIdx.x / kWarpThreads];
  const uint32_t n = frames.First().n;
  for (uint64_t begin = ThisWarp() * kTileElements; begin < n;
       begin += NumWarps() * kTileElements) {
    const auto size = static_cast<uint32_t>(n - begin < kTileElements ? n - begin : kTileElements);
    for (uint32_t j = ThisLane(); j < size; j += kWarpThreads)
      tile->sums[j] = frames.Begin(begin + j);
    for (uint32_t i = blockIdx.y; i < frames.num_values; i += frames.num_tensors) {
      const AddedValues& added = frames.values[i];
      if (added.section.k > 0 && *added.error_dev == 0)
        AddTile(added, frames.scale, begin, size, tile);
    }
    for (uint32_t j = ThisLane(); j < size; j += kWarpThreads) frames.End(begin + j, tile->sums[j]);
  }
}

}  // namespace

Status SumTiles(const Parts<AddedValues>& values, size_t num_tensors, bool have_indices,
                SumStep step, float scale, uint32_t bits, cudaStream_t stream) {
  const auto threads = [](const AddedValues& first) { return NumTiles(first.n) * kWarpThreads; };
  const PartItems items = CountItems(values.on_host.subspan(0, num_tensors), threads);
  const auto launch = [&](void (*kernel)(SummedFrames)) {
    return LaunchParts("sum tiles", kernel, items, num_tensors, stream,
                       SummedFrames{values.data_dev, static_cast<uint32_t>(num_tensors),
                                    static_cast<uint32_t>(values.size()), step, scale, bits});
  };
  const ValueKind kind = values.on_host[0].section.kind;
  if (kind == ValueKind::kBlockInt && !have_indices) return launch(SumBlockIntsKernel);
  if (!IsCoded(kind)) return launch(SumTilesKernel<NumberReader>);
  return WithCodes(kind, [&](auto* codes) {
    return launch(SumTilesKernel<CodeReader<std::remove_pointer_t<decltype(codes)>>>);
  });
}

}  // namespace device
}  // namespace tfcompress
