#include "core/float_order.h"
#include "core/sparsify/collect.h"
#include "cuda/compensate.h"
#include "cuda/digits.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// Elements that a lane loads before it looks at the first: loads wait for memory together.
constexpr uint32_t kAtOnce = 4;

// Loads the lane's next elements, `begin` on, a warp apart; those past the end are 0.
__device__ void Load(const DenseVector& vector, uint64_t begin, float* values) {
  for (uint32_t j = 0; j < kAtOnce; ++j) {
    const uint64_t i = begin + j * kWarpThreads;
    values[j] = i < vector.n ? vector.At(static_cast<uint32_t>(i)) : 0.0f;
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    InspectKernel(DenseVector vector, Digit digit, uint32_t* histogram, EncodeState* state) {
  __shared__ uint32_t counts[kMaxBuckets];
  ClearCounts(counts);
  bool finite = true;
  const uint64_t num_tiles = NumTiles(vector.n);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    for (uint32_t word = 0; word < kTileWords; word += kAtOnce) {
      float values[kAtOnce];
      Load(vector, first + word * 32, values);
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        finite &= IsFiniteBits(FloatBits(values[j]));
        if (histogram == nullptr) continue;
        const bool exists = first + (word + j) * 32 < vector.n;
        CountBuckets(digit.Of(MagnitudeBits(values[j])), exists, counts);
      }
    }
  }
  if (!finite) atomicOr(&state->nonfinite, 1u);
  if (histogram != nullptr) AddCounts(counts, histogram);
}

__global__ void __launch_bounds__(kBlockThreads)
    SettleKernel(DenseVector vector, float* after, const EncodeState* state, uint32_t* words,
                 uint64_t* counts) {
  const bool finite = state->nonfinite == 0;
  const uint32_t min_magnitude = state->min_magnitude;
  const uint64_t num_tiles = NumTiles(vector.n);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane();
    uint32_t own_word = 0;
    uint32_t count = 0;
    for (uint32_t word = 0; word < kTileWords; word += kAtOnce) {
      float values[kAtOnce];
      Load(vector, first + word * 32, values);
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const uint64_t i = first + (word + j) * 32;
        const bool exists = i < vector.n;
        if (exists && after != nullptr) after[i] = finite ? values[j] : vector.added_dev[i];
        if (words == nullptr) continue;
        const bool marked = exists && finite && MagnitudeBits(values[j]) >= min_magnitude;
        const uint32_t marks = __ballot_sync(kAllLanes, marked);
        if (ThisLane() == word + j) own_word = marks;
        count += static_cast<uint32_t>(__popc(marks));
      }
    }
    if (words == nullptr) continue;
    words[tile * kTileWords + ThisLane()] = own_word;
    if (ThisLane() == 0) counts[tile] = count;
  }
}

}  // namespace

Status Inspect(const DenseVector& vector, uint32_t* histogram_dev, EncodeState* state_dev,
               cudaStream_t stream) {
  return LaunchWarps("inspect", InspectKernel, NumTiles(vector.n), stream, vector, kDigits[0],
                     histogram_dev, state_dev);
}

Status Settle(const DenseVector& vector, float* after_dev, const Marks* marks,
              const EncodeState* state_dev, cudaStream_t stream) {
  return LaunchWarps("settle", SettleKernel, NumTiles(vector.n), stream, vector, after_dev,
                     state_dev, marks == nullptr ? nullptr : marks->words_dev,
                     marks == nullptr ? nullptr : marks->ends_dev);
}

}  // namespace device
}  // namespace tfcompress
