#include <type_traits>

#include "core/bit_io.h"
#include "core/float_order.h"
#include "core/value/block_int_levels.h"
#include "cuda/compensate.h"
#include "cuda/dense_encoder.h"
#include "cuda/launch_frames.h"
#include "cuda/memories.h"
#include "cuda/numbers.h"
#include "cuda/raw_bytes.h"
#include "cuda/tiles.h"
#include "cuda/value_codes.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// What the pass reads and writes beside the elements.
struct DensePass {
  Compensation step;
  EncodeState* state;
  unsigned char* section;  // Of the values: there is none of indices.

  TFC_HOST_DEVICE static DensePass Of(const EncodedFrame& frame) {
    return {frame.compensation, frame.state_dev, frame.data_dev + kFrameHeaderBytes};
  }
};

template <typename Memory, typename Source>
__global__ void __launch_bounds__(kBlockThreads)
    EncodeNumbersKernel(Source source, ValueKind kind, bool notes_nonfinite) {
  const DensePass pass = source.Get();
  if (!notes_nonfinite && pass.state->nonfinite != 0) return;
  const DenseVector gradient = pass.step.gradient;
  const Memory memory(pass.step);
  bool finite = true;
  for (uint64_t tile = ThisWarp(); tile < NumTiles(gradient.n); tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    for (uint32_t row = 0; row < kTileElements; row += kLoadsAtOnce * kWarpThreads) {
      typename Memory::State states[kLoadsAtOnce];
      LoadStates(gradient, memory, first + row, states);
      for (uint32_t j = 0; j < kLoadsAtOnce; ++j) {
        const uint64_t i = first + row + j * kWarpThreads;
        if (i >= gradient.n) break;
        memory.WriteVelocity(static_cast<uint32_t>(i), states[j]);
        const float value = CompensatedOf(states[j]);
        finite &= IsFiniteBits(FloatBits(value));
        const float decoded = EncodeNumber(kind, value, i, pass.section);
        memory.WriteResidual(static_cast<uint32_t>(i), value - decoded);
      }
    }
  }
  NoteNonfinite(finite, pass.state);
}

// ---- Blocks of integers -------------------------------------------------------------------------

constexpr uint32_t kMaxTileBlocks = kTileElements >> BlockIntLevels::kMinBlockBits;
static_assert(kTileElements % (1u << BlockIntLevels::kMaxBlockBits) == 0,
              "a tile has whole blocks");

// What a warp keeps of its tile. The words are the bits of values first. Then their codes are in
// the first quarter, a byte each, and those of fewer than 8 bits, packed, in the second half.
struct BlockTile {
  static constexpr uint32_t kSentBegin = kTileElements / 2;

  uint32_t words[kTileElements];
  float steps_per_unit[kMaxTileBlocks];
  float steps[kMaxTileBlocks];
};

// Loads the compensated values of a tile; those past the end are 0. Writes what the memory keeps
// beside the residual. Returns whether the lane's values are finite.
template <typename Memory>
__device__ bool LoadTile(const DenseVector& gradient, const Memory& memory, uint64_t begin,
                         uint32_t* words) {
  bool finite = true;
  for (uint32_t row = 0; row < kTileElements; row += kLoadsAtOnce * kWarpThreads) {
    typename Memory::State states[kLoadsAtOnce];
    const uint64_t first = begin + row + ThisLane();
    LoadStates(gradient, memory, first, states);
    for (uint32_t j = 0; j < kLoadsAtOnce; ++j) {
      const uint64_t i = first + j * kWarpThreads;
      const uint32_t bits = FloatBits(CompensatedOf(states[j]));
      finite &= IsFiniteBits(bits);
      words[i - begin] = bits;
      if (i < gradient.n) memory.WriteVelocity(static_cast<uint32_t>(i), states[j]);
    }
  }
  return finite;
}

// Finds the scales of the blocks of a tile of `size` values, and stores them.
__device__ void ScaleBlocks(const BlockIntLevels& levels, int block_bits, uint32_t size,
                            BlockTile* tile, unsigned char* scales) {
  const uint32_t block_size = 1u << block_bits;
  const uint32_t num_lanes = block_size < kWarpThreads ? block_size : kWarpThreads;
  for (uint32_t first = ThisLane(); first < kTileElements;
       first += block_size / num_lanes * kWarpThreads) {
    uint32_t largest = 0;
    for (uint32_t j = 0; j < block_size; j += num_lanes) {
      const uint32_t magnitude =
          tile->words[first + j / num_lanes * kWarpThreads] & kFloatMagnitudeBits;
      if (magnitude > largest) largest = magnitude;
    }
    const uint16_t scale = BlockIntLevels::ScaleOf(FloatFromBits(MaxOfLanes(largest, num_lanes)));
    if (ThisLane() % num_lanes == 0) {
      const uint32_t block = first >> block_bits;
      tile->steps_per_unit[block] = levels.StepsPerUnit(scale);
      tile->steps[block] = levels.Step(scale);
      if (first < size) StoreAt(scales, block, scale);
    }
  }
}

// Replaces the values by their codes, and writes the residuals. Codes past the end are 0.
template <typename Memory>
__device__ void MakeCodes(const BlockIntLevels& levels, int block_bits, uint32_t size,
                          const Memory& memory, uint64_t begin, BlockTile* tile) {
  auto* const codes = reinterpret_cast<unsigned char*>(tile->words);
  const bool are_square = levels.are_square();
  const float middle = levels.Middle();
  for (uint32_t j = ThisLane(); j < kTileElements; j += kWarpThreads) {
    const float value = FloatFromBits(tile->words[j]);
    const float steps_per_unit = tile->steps_per_unit[j >> block_bits];
    const float step = tile->steps[j >> block_bits];
    const uint32_t code = are_square ? levels.CodeOfSquare(value, steps_per_unit)
                                     : levels.CodeOfEven(value, steps_per_unit);
    const float decoded = are_square ? BlockIntLevels::ValueOfSquare(code, middle, step)
                                     : BlockIntLevels::ValueOfEven(code, middle, step);
    if (j < size) memory.WriteResidual(static_cast<uint32_t>(begin) + j, value - decoded);
    // The codes of a row take the place of values of rows before it, or of its own.
    __syncwarp();
    codes[j] = static_cast<unsigned char>(j < size ? code : 0);
  }
}

// Packs the codes of a tile; returns where they are.
__device__ const uint32_t* PackCodes(int num_bits, BlockTile* tile) {
  if (num_bits == 8) return tile->words;
  uint32_t* const sent = tile->words + BlockTile::kSentBegin;
  const BitPacking packing(reinterpret_cast<unsigned char*>(sent), num_bits);
  for (uint32_t group = ThisLane(); group < kTileElements / BitPacking::kGroup;
       group += kWarpThreads) {
    uint32_t codes[BitPacking::kGroup];
    for (uint32_t i = 0; i < BitPacking::kGroup; ++i)
      codes[i] = tile->words[2 * group + i / 4] >> (8 * (i % 4)) & 0xFF;
    packing.Store(group, codes, BitPacking::kGroup);
  }
  return sent;
}

template <typename Memory, typename Source>
__global__ void __launch_bounds__(kBlockThreads)
    EncodeBlocksKernel(Source source, ValueSpec spec, bool notes_nonfinite) {
  __shared__ BlockTile tiles[kBlockWarps];
  BlockTile* const tile = &tiles[threadIdx.x / kWarpThreads];
  const DensePass pass = source.Get();
  if (!notes_nonfinite && pass.state->nonfinite != 0) return;
  const DenseVector gradient = pass.step.gradient;
  const Memory memory(pass.step);
  const BlockIntLevels levels(spec.num_bits, spec.spacing);
  const int block_bits = BitsFor(spec.bucket_size);
  unsigned char* const scales = pass.section + ValueSpec::HeaderBytes(ValueKind::kBlockInt);
  unsigned char* const codes = pass.section + spec.CodesBegin(gradient.n);
  if (ThisThread() == 0) {
    pass.section[0] = levels.Byte();
    pass.section[1] = static_cast<unsigned char>(block_bits);
  }
  bool finite = true;
  for (uint64_t begin = ThisWarp() * kTileElements; begin < gradient.n;
       begin += NumWarps() * kTileElements) {
    const auto size = static_cast<uint32_t>(gradient.n - begin < kTileElements ? gradient.n - begin
                                                                               : kTileElements);
    finite &= LoadTile(gradient, memory, begin, tile->words);
    __syncwarp();
    ScaleBlocks(levels, block_bits, size, tile, scales + (begin >> block_bits) * sizeof(uint16_t));
    __syncwarp();
    MakeCodes(levels, block_bits, size, memory, begin, tile);
    __syncwarp();
    const uint32_t* const sent = PackCodes(spec.num_bits, tile);
    __syncwarp();
    StoreByWarp(sent, static_cast<uint32_t>(PackedBytes(size, spec.num_bits)),
                codes + PackedBytes(begin, spec.num_bits));
    __syncwarp();
  }
  NoteNonfinite(finite, pass.state);
}

template <typename Memory>
Status EncodeSections(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                      bool notes_nonfinite, cudaStream_t stream) {
  if (spec.kind == ValueKind::kBlockInt) {
    return LaunchViews<DensePass>(
        "encode blocks", [](auto source) { return EncodeBlocksKernel<Memory, decltype(source)>; },
        frames, TileThreadsOf, stream, spec, notes_nonfinite);
  }
  return LaunchViews<DensePass>(
      "encode numbers", [](auto source) { return EncodeNumbersKernel<Memory, decltype(source)>; },
      frames, TileThreadsOf, stream, spec.kind, notes_nonfinite);
}

}  // namespace

bool EncodesInOnePass(const DeviceSpec& spec) {
  if (spec.sparsifier != SparsifierKind::kDense || spec.joint.kind != JointKind::kNone)
    return false;
  const ValueSpec& value = spec.value;
  if (value.kind == ValueKind::kBlockInt)
    return !BlockIntLevels(value.num_bits, value.spacing).are_four();
  return !IsCoded(value.kind);
}

Status EncodeDense(const DeviceSpec& spec, const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return InOnePass(frames, stream, [&](bool notes_nonfinite) {
    return WithMemory(spec.memory, [&](auto* kind) {
      using Memory = std::remove_pointer_t<decltype(kind)>;
      return EncodeSections<Memory>(spec.value, frames, notes_nonfinite, stream);
    });
  });
}

}  // namespace device
}  // namespace tfcompress
