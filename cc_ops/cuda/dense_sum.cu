#include "core/bit_io.h"
#include "core/float_order.h"
#include "core/value/block_int_levels.h"
#include "cuda/dense_sum.h"
#include "cuda/launch.h"
#include "cuda/numbers.h"
#include "cuda/raw_bytes.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

// What a launch sums: the frames of tensor blockIdx.y are each num_tensors-th of a table.
struct DenseValues {
  const AddedValues* values;
  uint32_t num_tensors;
  uint32_t num_values;
  bool add;
  float scale;
  uint32_t bits;

  __device__ const AddedValues& First() const { return values[blockIdx.y]; }
  // What the i-th sum is before.
  __device__ float Begin(uint64_t i) const { return add ? First().sum_dev[i] : 0; }
  // Calls body(values) for each rank that sent some.
  template <typename Body>
  __device__ void ForEachRank(const Body& body) const {
    for (uint32_t i = blockIdx.y; i < num_values; i += num_tensors)
      if (values[i].section.k > 0) body(values[i]);
  }
};

__global__ void __launch_bounds__(kBlockThreads) SumNumbersKernel(DenseValues dense) {
  const uint32_t n = dense.First().n;
  float* const out = dense.First().sum_dev;
  for (uint64_t tile = ThisWarp(); tile < NumTiles(n); tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    for (uint32_t row = 0; row < kTileElements; row += kLoadsAtOnce * kWarpThreads) {
      float sums[kLoadsAtOnce] = {};
      const auto for_each = [&](const auto& body) {
        for (uint32_t j = 0; j < kLoadsAtOnce; ++j)
          if (first + row + j * kWarpThreads < n) body(first + row + j * kWarpThreads, j);
      };
      for_each([&](uint64_t i, uint32_t j) { sums[j] = dense.Begin(i); });
      dense.ForEachRank([&](const AddedValues& added) {
        const ValueSectionView& section = added.section;
        uint32_t loaded[kLoadsAtOnce];
        for_each([&](uint64_t i, uint32_t j) {
          loaded[j] = LoadNumber(section.kind, section.data_dev, i);
        });
        bool finite = true;
        for_each([&](uint64_t, uint32_t j) {
          const float value = DecodeNumber(section.kind, loaded[j]);
          finite &= IsFiniteBits(FloatBits(value));
          sums[j] += dense.scale * value;
        });
        if (!finite) atomicOr(added.error_dev, dense.bits);
      });
      for_each([&](uint64_t i, uint32_t j) { out[i] = sums[j]; });
    }
  }
}

// ---- Blocks of integers -------------------------------------------------------------------------

// What a warp keeps of its tile.
struct SumTile {
  float sums[kTileElements];
  // The codes of a rank, as they were sent, and the steps of their blocks.
  uint32_t words[kTileElements * BlockIntLevels::kMaxBits / 32];
  float steps[kTileElements >> BlockIntLevels::kMinBlockBits];
};

// The code at a position among packed ones, of which it may have bits of two words.
__device__ uint32_t CodeAt(const uint32_t* words, uint32_t i, int num_bits) {
  const uint32_t bit = i * static_cast<uint32_t>(num_bits);
  const uint32_t shift = bit % 32;
  uint32_t code = words[bit / 32] >> shift;
  if (shift + static_cast<uint32_t>(num_bits) > 32) code |= words[bit / 32 + 1] << (32 - shift);
  return code & ((1u << num_bits) - 1);
}

// Adds the values of a rank to the sums of the `size` elements of the tile that begins at `begin`.
__device__ void AddTile(const AddedValues& added, float scale, uint64_t begin, uint32_t size,
                        SumTile* tile) {
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
  const bool are_square = levels.are_square();
  const float middle = levels.Middle();
  for (uint32_t j = ThisLane(); j < size; j += kWarpThreads) {
    const uint32_t code = CodeAt(tile->words, j, num_bits);
    const float step = tile->steps[j >> block_bits];
    const float value = are_square ? BlockIntLevels::ValueOfSquare(code, middle, step)
                                   : BlockIntLevels::ValueOfEven(code, middle, step);
    tile->sums[j] += scale * value;
  }
  __syncwarp();
}

// Scales have been checked, so that all values are finite, and no error is set meanwhile.
__global__ void __launch_bounds__(kBlockThreads) SumBlocksKernel(DenseValues dense) {
  __shared__ SumTile tiles[kBlockWarps];
  SumTile* const tile = &tiles[threadIdx.x / kWarpThreads];
  const uint32_t n = dense.First().n;
  float* const out = dense.First().sum_dev;
  for (uint64_t begin = ThisWarp() * kTileElements; begin < n;
       begin += NumWarps() * kTileElements) {
    const auto size = static_cast<uint32_t>(n - begin < kTileElements ? n - begin : kTileElements);
    for (uint32_t j = ThisLane(); j < size; j += kWarpThreads)
      tile->sums[j] = dense.Begin(begin + j);
    dense.ForEachRank([&](const AddedValues& added) {
      if (*added.error_dev == 0) AddTile(added, dense.scale, begin, size, tile);
    });
    for (uint32_t j = ThisLane(); j < size; j += kWarpThreads) out[begin + j] = tile->sums[j];
  }
}

}  // namespace

Status SumDense(const Parts<AddedValues>& values, size_t num_tensors, bool add, float scale,
                uint32_t bits, cudaStream_t stream) {
  const auto threads = [](const AddedValues& first) { return NumTiles(first.n) * kWarpThreads; };
  const PartItems items = CountItems(values.on_host.subspan(0, num_tensors), threads);
  const bool are_blocks = values.on_host[0].section.kind == ValueKind::kBlockInt;
  return LaunchParts("sum dense", are_blocks ? SumBlocksKernel : SumNumbersKernel, items,
                     num_tensors, stream,
                     DenseValues{values.data_dev, static_cast<uint32_t>(num_tensors),
                                 static_cast<uint32_t>(values.size()), add, scale, bits});
}

}  // namespace device
}  // namespace tfcompress
