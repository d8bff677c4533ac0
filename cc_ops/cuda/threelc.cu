#include "core/byte_io.h"
#include "core/count_bits.h"
#include "core/frame.h"
#include "core/memory/momentum_step.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/scan.h"
#include "cuda/threelc.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// Bytes of a tile that a lane processes in order.
constexpr uint32_t kLaneBytes = kTileElements / kWarpThreads;
constexpr uint64_t kBlockTiles = static_cast<uint64_t>(kQuarticBlock) / kTileElements;
static_assert(kBlockTiles == 2 * kWarpThreads);  // In RunBefore each lane reads two tiles.

// ---- Digits ------------------------------------------------------------------------------------

// Selects nothing if the vector is not finite: no magnitude may be sent then, not even infinity.
__global__ void ChooseScaleKernel(const Extremes* extremes, double multiplier,
                                  const EncodeState* state, ThreelcState* own) {
  if (ThisThread() != 0) return;
  *own = {};
  own->values = ThreeValues::Of(extremes->largest_magnitude, multiplier);
  if (state->k == 0) own->values.threshold_bits = 0xFFFFFFFFu;
}

// The quartic byte of elements that begin at `first`.
__device__ uint32_t QuarticOf(const DenseVector& dense, const ThreeValues& values, uint64_t first) {
  int byte = kFiveZeros;
  for (int i = 0; i < kQuarticDigits; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    if (index < dense.n)
      byte += values.Digit(dense.At(static_cast<uint32_t>(index))) * QuarticPower(i);
  }
  return static_cast<uint32_t>(byte);
}

// One thread per word of four bytes.
__global__ void QuantizeAllKernel(DenseVector dense, uint64_t num_words, const ThreelcState* state,
                                  uint32_t* words) {
  const ThreeValues values = state->values;
  for (uint64_t i = ThisThread(); i < num_words; i += NumThreads()) {
    uint32_t word = 0;
    for (uint64_t byte = 0; byte < 4; ++byte)
      word |= QuarticOf(dense, values, (4 * i + byte) * kQuarticDigits) << (8 * byte);
    words[i] = word;
  }
}

// Adds digits to bytes of five zeros, in words. Carries between the bytes of a word cancel out once
// all digits are added, since every final byte fits in 8 bits.
__global__ void QuantizeSelectedKernel(SelectedValues selected, const EncodeState* state,
                                       const ThreelcState* own, uint32_t* words) {
  const ThreeValues values = own->values;
  for (uint64_t i = ThisThread(); i < state->k; i += NumThreads()) {
    const uint32_t index = selected.IndexOf(i);
    const int digit = values.Digit(selected.dense.At(index));
    if (digit == 0) continue;
    const uint32_t byte = index / kQuarticDigits;
    const auto step =
        static_cast<uint32_t>(digit * QuarticPower(static_cast<int>(index % kQuarticDigits)));
    atomicAdd(&words[byte / 4], step << (8 * (byte % 4)));
  }
}

Status Quantize(const SelectedValues& values, uint32_t max_k, const ThreelcBuffers& buffers,
                const EncodeState* state_dev, cudaStream_t stream) {
  const uint64_t num_tile_bytes =
      NumTiles(static_cast<uint64_t>(NumQuarticBytes(values.dense.n))) * kTileElements;
  auto* words_dev = reinterpret_cast<uint32_t*>(buffers.quartic_dev);
  if (values.indices_dev == nullptr) {
    return LaunchThreads("quantize all", QuantizeAllKernel, num_tile_bytes / 4, stream,
                         values.dense, num_tile_bytes / 4, buffers.state_dev, words_dev);
  }
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.quartic_dev, kFiveZeros, num_tile_bytes, stream));
  return LaunchThreads("quantize selected", QuantizeSelectedKernel, max_k, stream, values,
                       state_dev, buffers.state_dev, words_dev);
}

// ---- Runs of zeros -----------------------------------------------------------------------------

// Number of bytes of [begin, end) up to the last one that is not five zeros.
__device__ uint32_t UpToLast(const unsigned char* quartic, uint64_t begin, uint64_t end) {
  uint32_t last = 0;
  for (uint64_t i = begin; i < end; ++i) {
    if (quartic[i] != kFiveZeros) last = static_cast<uint32_t>(i - begin) + 1;
  }
  return last;
}

__global__ void FindLastsKernel(const unsigned char* quartic, uint64_t num_bytes, uint32_t* lasts) {
  for (uint64_t tile = ThisWarp(); tile * kTileElements < num_bytes; tile += NumWarps()) {
    const uint64_t begin = tile * kTileElements + ThisLane() * kLaneBytes;
    const uint64_t end = begin + kLaneBytes < num_bytes ? begin + kLaneBytes : num_bytes;
    const uint32_t own = UpToLast(quartic, begin, end);
    const uint32_t last = MaxOfLanes(own == 0 ? 0 : ThisLane() * kLaneBytes + own);
    if (ThisLane() == 0) lasts[tile] = last;
  }
}

// Number of bytes of five zeros directly before a tile, not past the beginning of its block. Called
// by a warp.
__device__ uint64_t RunBefore(const uint32_t* lasts, uint64_t tile) {
  const uint64_t num_before = tile % kBlockTiles;
  for (uint64_t distance = 1; distance <= num_before; distance += kWarpThreads) {
    const uint64_t own = distance + ThisLane();
    const uint32_t last = own <= num_before ? lasts[tile - own] : 0;
    const uint32_t found = __ballot_sync(kAllLanes, last != 0);
    if (found == 0) continue;
    const int lane = __ffs(static_cast<int>(found)) - 1;
    const uint64_t num_tiles = distance + static_cast<uint64_t>(lane);
    return num_tiles * kTileElements - __shfl_sync(kAllLanes, last, lane);
  }
  return num_before * kTileElements;
}

// The same before the bytes of this lane. `own_last` is UpToLast of the bytes of each lane.
__device__ uint64_t RunBeforeLane(uint64_t run_before_tile, uint32_t own_last) {
  const uint32_t found = __ballot_sync(kAllLanes, own_last != 0) & LanesBefore();
  const int lane = found == 0 ? 0 : 31 - CountLeadingZeros(found);
  const uint32_t last = __shfl_sync(kAllLanes, own_last, lane);
  if (found == 0) return run_before_tile + ThisLane() * kLaneBytes;
  return (ThisLane() - static_cast<uint32_t>(lane)) * kLaneBytes - last;
}

// Number of bytes of five zeros from `begin` on, within the block and at most the run of one code.
__device__ int64_t RunLength(const unsigned char* quartic, uint64_t begin, uint64_t num_bytes) {
  constexpr uint64_t kBlock = static_cast<uint64_t>(kQuarticBlock);
  const uint64_t block_end = (begin / kBlock + 1) * kBlock;
  const uint64_t end = block_end < num_bytes ? block_end : num_bytes;
  int64_t length = 0;
  while (length < kMaxZeroRun && begin + static_cast<uint64_t>(length) < end &&
         quartic[begin + static_cast<uint64_t>(length)] == kFiveZeros)
    ++length;
  return length;
}

// Calls emit(i) for the bytes of a lane at which a coded byte begins: those that are not five
// zeros, and each kMaxZeroRun-th of a run.
template <typename Emit>
__device__ void ForEachCoded(const unsigned char* quartic, uint64_t num_bytes,
                             const uint32_t* lasts, uint64_t tile, const Emit& emit) {
  const uint64_t begin = tile * kTileElements + ThisLane() * kLaneBytes;
  const uint64_t end = begin + kLaneBytes < num_bytes ? begin + kLaneBytes : num_bytes;
  const uint32_t own_last = UpToLast(quartic, begin, end);
  auto place = static_cast<uint32_t>(RunBeforeLane(RunBefore(lasts, tile), own_last) % kMaxZeroRun);
  for (uint64_t i = begin; i < end; ++i) {
    const bool is_zeros = quartic[i] == kFiveZeros;
    if (!is_zeros || place == 0) emit(i);
    place = !is_zeros || place + 1 == kMaxZeroRun ? 0 : place + 1;
  }
}

__global__ void MeasureRunsKernel(const unsigned char* quartic, uint64_t num_bytes,
                                  const uint32_t* lasts, uint64_t* counts, ThreelcState* state) {
  for (uint64_t tile = ThisWarp(); tile * kTileElements < num_bytes; tile += NumWarps()) {
    uint32_t num_coded = 0, num_sent = 0;
    ForEachCoded(quartic, num_bytes, lasts, tile, [&](uint64_t i) {
      ++num_coded;
      num_sent += static_cast<uint32_t>(NumNonzeroDigits(quartic[i]));
    });
    num_coded = SumOfLanes(num_coded);
    num_sent = SumOfLanes(num_sent);
    if (ThisLane() != 0) continue;
    counts[tile] = num_coded;
    atomicAdd(&state->num_sent, num_sent);
  }
}

__global__ void FinishMeasureKernel(const uint64_t* num_coded, ThreelcState* own,
                                    EncodeState* state) {
  if (ThisThread() != 0) return;
  state->k = own->num_sent;
  own->num_value_bytes = sizeof(float) + *num_coded;
}

__global__ void WriteRunsKernel(const unsigned char* quartic, uint64_t num_bytes,
                                const uint32_t* lasts, const uint64_t* ends,
                                const ThreelcState* own, const EncodeState* state,
                                unsigned char* frame) {
  if (state->k == 0) return;
  unsigned char* section = frame + kFrameHeaderBytes;
  if (ThisThread() == 0) StoreUnaligned(section, own->values.scale);
  for (uint64_t tile = ThisWarp(); tile * kTileElements < num_bytes; tile += NumWarps()) {
    uint32_t count = 0;
    ForEachCoded(quartic, num_bytes, lasts, tile, [&](uint64_t) { ++count; });
    unsigned char* out = section + sizeof(float) + ends[tile] + InclusiveSum(count) - count;
    ForEachCoded(quartic, num_bytes, lasts, tile, [&](uint64_t i) {
      const bool is_zeros = quartic[i] == kFiveZeros;
      *out++ = is_zeros ? ZeroRunCode(RunLength(quartic, i, num_bytes)) : quartic[i];
    });
  }
}

__global__ void TakeOutKernel(const unsigned char* quartic, uint32_t n, const ThreelcState* own,
                              const EncodeState* state, SentSlots slots) {
  if (state->k == 0) return;
  const bool masks = MasksVelocity(state->k, n);
  for (uint64_t i = ThisThread(); i < n; i += NumThreads()) {
    const int digit =
        QuarticDigit(quartic[i / kQuarticDigits], static_cast<int>(i % kQuarticDigits));
    if (digit != 0) slots.TakeOut(i, ThreeValueOf(own->values.scale, digit), masks);
  }
}

// ---- Decoding ----------------------------------------------------------------------------------

// Counts the quartic bytes of each tile of coded bytes, and all digits that are not 0.
__global__ void MeasureCodedKernel(const unsigned char* coded, uint64_t num_coded, uint64_t* counts,
                                   ThreelcState* state) {
  for (uint64_t tile = ThisWarp(); tile * kTileElements < num_coded; tile += NumWarps()) {
    uint32_t num_quartic = 0, num_sent = 0;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      if (i >= num_coded) continue;
      num_quartic += static_cast<uint32_t>(NumQuarticBytesOf(coded[i]));
      num_sent += static_cast<uint32_t>(NumNonzeroDigits(coded[i]));
    }
    num_quartic = SumOfLanes(num_quartic);
    num_sent = SumOfLanes(num_sent);
    if (ThisLane() != 0) continue;
    counts[tile] = num_quartic;
    atomicAdd(&state->num_sent, num_sent);
  }
}

// Whether the digits of the last byte past the end of the vector are 0.
__device__ bool EndsWithZeros(int last_byte, uint32_t n) {
  if (last_byte >= kRunOfTwo || n % kQuarticDigits == 0) return true;
  for (int i = static_cast<int>(n % kQuarticDigits); i < kQuarticDigits; ++i) {
    if (QuarticDigit(last_byte, i) != 0) return false;
  }
  return true;
}

__global__ void CheckCodedKernel(const unsigned char* section, uint64_t num_bytes, uint32_t n,
                                 uint32_t k, const uint64_t* num_quartic, uint32_t bits,
                                 uint32_t* error, ThreelcState* state) {
  if (ThisThread() != 0) return;
  state->values.scale = LoadUnaligned<float>(section);
  // The bits of a negative number are greater than those of infinity.
  const bool valid = FloatBits(state->values.scale) < kFloatInfinityBits && state->num_sent == k &&
                     *num_quartic == static_cast<uint64_t>(NumQuarticBytes(n)) &&
                     EndsWithZeros(section[num_bytes - 1], n);
  if (!valid) atomicOr(error, bits);
}

__device__ void AddDigits(int byte, uint64_t first, float value_scale, float scale, float* sum) {
  if (byte >= kRunOfTwo || byte == kFiveZeros) return;
  for (int i = 0; i < kQuarticDigits; ++i) {
    const int digit = QuarticDigit(byte, i);
    if (digit != 0)
      sum[first + static_cast<uint64_t>(i)] += scale * ThreeValueOf(value_scale, digit);
  }
}

__global__ void AddCodedKernel(const unsigned char* coded, uint64_t num_coded, const uint64_t* ends,
                               const ThreelcState* state, float scale, const uint32_t* error,
                               float* sum) {
  if (*error != 0) return;
  for (uint64_t tile = ThisWarp(); tile * kTileElements < num_coded; tile += NumWarps()) {
    uint64_t begin = ends[tile];
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      const int byte = i < num_coded ? coded[i] : kFiveZeros;
      const auto own = static_cast<uint32_t>(NumQuarticBytesOf(byte));
      const uint32_t up_to_own = InclusiveSum(own);
      if (i < num_coded)
        AddDigits(byte, (begin + up_to_own - own) * kQuarticDigits, state->values.scale, scale,
                  sum);
      begin += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
  }
}

}  // namespace

Status TakeThreelcBuffers(uint32_t n, Workspace* workspace, ThreelcBuffers* buffers) {
  const uint64_t num_tiles = NumTiles(static_cast<uint64_t>(NumQuarticBytes(n)));
  buffers->state_dev = workspace->Take<ThreelcState>(1);
  buffers->extremes_dev = workspace->Take<Extremes>(1);
  buffers->quartic_dev = workspace->Take<unsigned char>(num_tiles * kTileElements);
  buffers->lasts_dev = workspace->Take<uint32_t>(num_tiles);
  buffers->ends_dev = workspace->Take<uint64_t>(num_tiles + 1);
  return TakeScanStorage(num_tiles, workspace, &buffers->scan_storage);
}

Status PrepareThreelc(const SelectedValues& values, uint32_t max_k, double multiplier,
                      const ThreelcBuffers& buffers, EncodeState* state_dev, cudaStream_t stream) {
  const auto num_bytes = static_cast<uint64_t>(NumQuarticBytes(values.dense.n));
  const uint64_t num_tiles = NumTiles(num_bytes);
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.extremes_dev, 0, sizeof(*buffers.extremes_dev), stream));
  TFC_RETURN_IF_ERROR(FindExtremes(values, max_k, &state_dev->k, buffers.extremes_dev, stream));
  TFC_RETURN_IF_ERROR(Launch("choose scale", ChooseScaleKernel, 1, kWarpThreads, stream,
                             buffers.extremes_dev, multiplier, state_dev, buffers.state_dev));
  TFC_RETURN_IF_ERROR(Quantize(values, max_k, buffers, state_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("find lasts", FindLastsKernel, num_tiles, stream,
                                  buffers.quartic_dev, num_bytes, buffers.lasts_dev));
  TFC_RETURN_IF_ERROR(LaunchWarps("measure runs", MeasureRunsKernel, num_tiles, stream,
                                  buffers.quartic_dev, num_bytes, buffers.lasts_dev,
                                  buffers.ends_dev, buffers.state_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ends_dev, num_tiles, buffers.scan_storage, stream));
  return Launch("finish measure", FinishMeasureKernel, 1, kWarpThreads, stream,
                buffers.ends_dev + num_tiles, buffers.state_dev, state_dev);
}

Status WriteThreelc(uint32_t n, const ThreelcBuffers& buffers, const EncodeState* state_dev,
                    const SentSlots& slots, unsigned char* frame_dev, cudaStream_t stream) {
  const auto num_bytes = static_cast<uint64_t>(NumQuarticBytes(n));
  TFC_RETURN_IF_ERROR(LaunchWarps("write runs", WriteRunsKernel, NumTiles(num_bytes), stream,
                                  buffers.quartic_dev, num_bytes, buffers.lasts_dev,
                                  buffers.ends_dev, buffers.state_dev, state_dev, frame_dev));
  if (slots.residual == nullptr) return OkStatus();
  return LaunchThreads("take out", TakeOutKernel, n, stream, buffers.quartic_dev, n,
                       buffers.state_dev, state_dev, slots);
}

Status TakeThreelcDecodeBuffers(uint64_t max_bytes, Workspace* workspace,
                                ThreelcDecodeBuffers* buffers) {
  const uint64_t num_tiles = NumTiles(max_bytes);
  buffers->state_dev = workspace->Take<ThreelcState>(1);
  buffers->ends_dev = workspace->Take<uint64_t>(num_tiles + 1);
  return TakeScanStorage(num_tiles, workspace, &buffers->scan_storage);
}

Status AddThreelc(const unsigned char* section_dev, uint64_t num_bytes, uint32_t n, uint32_t k,
                  float scale, const ThreelcDecodeBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, float* sum_dev, cudaStream_t stream) {
  const unsigned char* coded_dev = section_dev + sizeof(float);
  const uint64_t num_coded = num_bytes - sizeof(float);
  const uint64_t num_tiles = NumTiles(num_coded);
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.state_dev, 0, sizeof(*buffers.state_dev), stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("measure coded", MeasureCodedKernel, num_tiles, stream, coded_dev,
                                  num_coded, buffers.ends_dev, buffers.state_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.ends_dev, num_tiles, buffers.scan_storage, stream));
  TFC_RETURN_IF_ERROR(Launch("check coded", CheckCodedKernel, 1, kWarpThreads, stream, section_dev,
                             num_bytes, n, k, buffers.ends_dev + num_tiles, bits, error_dev,
                             buffers.state_dev));
  return LaunchWarps("add coded", AddCodedKernel, num_tiles, stream, coded_dev, num_coded,
                     buffers.ends_dev, buffers.state_dev, scale, error_dev, sum_dev);
}

}  // namespace device
}  // namespace tfcompress
