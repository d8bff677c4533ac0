#include <algorithm>

#include "core/collect.h"
#include "cuda/cuda_status.h"
#include "cuda/scan.h"
#include "cuda/select_largest.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// Spare room for candidates, beside twice the wanted elements: a bucket is an eighth of an octave
// wide.
constexpr uint32_t kSpareCandidates = 4096;

// The remaining elements to choose from, in ascending order of indices.
struct Candidates {
  DenseVector dense;
  const uint64_t* num_marked;
  uint32_t capacity;
  const uint32_t* indices;
  const uint32_t* magnitudes;

  __device__ bool AreListed() const { return *num_marked <= capacity; }
  __device__ uint64_t Size() const { return AreListed() ? *num_marked : dense.n; }
  __device__ uint32_t Index(bool listed, uint64_t i) const {
    return listed ? indices[i] : static_cast<uint32_t>(i);
  }
  __device__ uint32_t Magnitude(bool listed, uint64_t i) const {
    return listed ? magnitudes[i] : MagnitudeBits(dense.At(static_cast<uint32_t>(i)));
  }
};

// Finds the digit of the num_wanted-th largest: one warp reads the histogram from its top. After
// the last digit the prefix is the whole magnitude; before, it is the begin of the next bucket.
__global__ void PickBucketKernel(const uint32_t* histogram, Digit digit, EncodeState* state) {
  if (state->nonfinite != 0) return;
  const uint32_t top = (1u << digit.num_bits) - 1;
  const uint32_t per_lane = (top + 1) / kWarpThreads;
  const uint32_t own_top = top - ThisLane() * per_lane;
  uint32_t own = 0;
  for (uint32_t i = 0; i < per_lane; ++i) own += histogram[own_top - i];
  const uint32_t up_to_own = InclusiveSum(own);
  uint32_t wanted = state->num_wanted;
  const uint32_t prefix = state->prefix;
  __syncwarp();
  if (up_to_own < wanted || up_to_own - own >= wanted) return;  // Another lane finds it.
  wanted -= up_to_own - own;
  uint32_t bucket = own_top;
  for (; histogram[bucket] < wanted; --bucket) wanted -= histogram[bucket];
  state->num_wanted = wanted;
  state->prefix = prefix << digit.num_bits | bucket;
  state->min_magnitude = state->prefix << digit.shift;
}

__global__ void __launch_bounds__(kBlockThreads)
    CountDigitKernel(Candidates candidates, Digit digit, const EncodeState* state,
                     uint32_t* histogram) {
  __shared__ uint32_t counts[kMaxBuckets];
  ClearCounts(counts);
  const bool listed = candidates.AreListed();
  const uint64_t size = state->nonfinite == 0 ? candidates.Size() : 0;
  const uint32_t prefix = state->prefix;
  for (uint64_t begin = ThisWarp() * kWarpThreads; begin < size; begin += NumThreads()) {
    const uint64_t i = begin + ThisLane();
    const uint32_t magnitude = i < size ? candidates.Magnitude(listed, i) : 0;
    CountBuckets(digit.Of(magnitude), i < size && digit.PrefixOf(magnitude) == prefix, counts);
  }
  AddCounts(counts, histogram);
}

// Calls body(i, magnitude) for the candidates of a tile, one for each lane at a time, on all lanes:
// where i >= size there is none. Magnitudes of some rows are loaded before the first is used.
template <typename Body>
__device__ void ForEachRow(const Candidates& candidates, bool listed, uint64_t tile, uint64_t size,
                           const Body& body) {
  constexpr uint32_t kAtOnce = 8;
  const uint64_t end = (tile + 1) * kTileElements;
  for (uint64_t begin = tile * kTileElements; begin < end && begin < size;
       begin += kAtOnce * kWarpThreads) {
    const uint64_t own = begin + ThisLane();
    uint32_t magnitudes[kAtOnce];
    for (uint32_t j = 0; j < kAtOnce; ++j) {
      const uint64_t i = own + j * kWarpThreads;
      magnitudes[j] = i < size ? candidates.Magnitude(listed, i) : 0;
    }
    for (uint32_t j = 0; j < kAtOnce; ++j) body(own + j * kWarpThreads, magnitudes[j]);
  }
}

// Counts the elements of a tile that are above the cut, in the high half, and equal to it, in the
// low half.
__global__ void CountKeptKernel(Candidates candidates, uint64_t num_tiles, const EncodeState* state,
                                uint64_t* kept) {
  const bool listed = candidates.AreListed();
  const uint64_t size = state->nonfinite == 0 ? candidates.Size() : 0;
  const uint32_t cut = state->prefix;
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t num_above = 0;
    uint32_t num_ties = 0;
    ForEachRow(candidates, listed, tile, size, [&](uint64_t i, uint32_t magnitude) {
      num_above += i < size && magnitude > cut;
      num_ties += i < size && magnitude == cut;
    });
    num_above = SumOfLanes(num_above);
    num_ties = SumOfLanes(num_ties);
    if (ThisLane() == 0) kept[tile] = uint64_t{num_above} << 32 | num_ties;
  }
}

// Writes the elements above the cut and the first ones equal to it, in order.
__global__ void WriteKeptKernel(Candidates candidates, uint64_t num_tiles, const EncodeState* state,
                                const uint64_t* kept, uint32_t* selected) {
  const bool listed = candidates.AreListed();
  const uint64_t size = state->nonfinite == 0 ? candidates.Size() : 0;
  const uint32_t cut = state->prefix;
  const uint32_t max_ties = state->num_wanted;
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    if (kept[tile] == kept[tile + 1]) continue;
    auto num_above = static_cast<uint32_t>(kept[tile] >> 32);
    auto num_ties = static_cast<uint32_t>(kept[tile]);
    ForEachRow(candidates, listed, tile, size, [&](uint64_t i, uint32_t magnitude) {
      const uint32_t above = __ballot_sync(kAllLanes, i < size && magnitude > cut);
      const uint32_t ties = __ballot_sync(kAllLanes, i < size && magnitude == cut);
      const uint32_t ties_before = num_ties + static_cast<uint32_t>(__popc(ties & LanesBefore()));
      const bool is_tie = (ties >> ThisLane() & 1) != 0 && ties_before < max_ties;
      if (is_tie || (above >> ThisLane() & 1) != 0) {
        const uint32_t ties_kept = ties_before < max_ties ? ties_before : max_ties;
        const auto above_before = static_cast<uint32_t>(__popc(above & LanesBefore()));
        selected[num_above + above_before + ties_kept] = candidates.Index(listed, i);
      }
      num_above += static_cast<uint32_t>(__popc(above));
      num_ties += static_cast<uint32_t>(__popc(ties));
    });
  }
}

Status PickBucket(const SelectBuffers& buffers, int digit, EncodeState* state_dev,
                  cudaStream_t stream) {
  return Launch("pick bucket", PickBucketKernel, 1, kWarpThreads, stream,
                buffers.histograms_dev[digit], kDigits[digit], state_dev);
}

}  // namespace

Status TakeSelectBuffers(uint32_t n, uint32_t k, Workspace* workspace, SelectBuffers* buffers) {
  auto* histograms_dev = workspace->Take<uint32_t>(kNumDigits * kMaxBuckets);
  for (int digit = 0; digit < kNumDigits; ++digit)
    buffers->histograms_dev[digit] = histograms_dev + digit * kMaxBuckets;
  buffers->capacity =
      static_cast<uint32_t>(std::min<uint64_t>(n, 2 * uint64_t{k} + kSpareCandidates));
  buffers->indices_dev = workspace->Take<uint32_t>(buffers->capacity);
  buffers->magnitudes_dev = workspace->Take<uint32_t>(buffers->capacity);
  buffers->kept_dev = workspace->Take<uint64_t>(NumTiles(n) + 1);
  return TakeScanStorage(NumTiles(n), workspace, &buffers->scan_storage);
}

Status BeginSelect(const SelectBuffers& buffers, cudaStream_t stream) {
  const size_t num_bytes = kNumDigits * kMaxBuckets * sizeof(uint32_t);
  return FromCuda(cudaMemsetAsync(buffers.histograms_dev[0], 0, num_bytes, stream),
                  "empty histograms");
}

Status FindBucket(const SelectBuffers& buffers, EncodeState* state_dev, cudaStream_t stream) {
  return PickBucket(buffers, 0, state_dev, stream);
}

Status SelectLargest(const SelectBuffers& buffers, const Marks& marks, const DenseVector& dense,
                     EncodeState* state_dev, uint32_t* selected_dev, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ListMarks(marks, buffers.capacity, dense, buffers.indices_dev,
                                buffers.magnitudes_dev, stream));
  const Candidates candidates = {dense, marks.num_marked_dev(), buffers.capacity,
                                 buffers.indices_dev, buffers.magnitudes_dev};
  for (int digit = 1; digit < kNumDigits; ++digit) {
    TFC_RETURN_IF_ERROR(LaunchThreads("count digit", CountDigitKernel, dense.n, stream, candidates,
                                      kDigits[digit], state_dev, buffers.histograms_dev[digit]));
    TFC_RETURN_IF_ERROR(PickBucket(buffers, digit, state_dev, stream));
  }
  const uint64_t num_tiles = NumTiles(dense.n);
  TFC_RETURN_IF_ERROR(LaunchWarps("count kept", CountKeptKernel, num_tiles, stream, candidates,
                                  num_tiles, state_dev, buffers.kept_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.kept_dev, num_tiles, buffers.scan_storage, stream));
  return LaunchWarps("write kept", WriteKeptKernel, num_tiles, stream, candidates, num_tiles,
                     state_dev, buffers.kept_dev, selected_dev);
}

}  // namespace device
}  // namespace tfcompress
