#include <type_traits>

#include "core/float_order.h"
#include "core/host_device.h"
#include "cuda/block_scan.h"
#include "cuda/compensate.h"
#include "cuda/digits.h"
#include "cuda/for_each_marked.h"
#include "cuda/last_block.h"
#include "cuda/launch_frames.h"
#include "cuda/sampled_bound.h"
#include "cuda/select_largest.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// What the selection from a vector works on.
struct Selection {
  DenseVector dense;
  Marks marks;  // Of the candidates.
  SelectSpace space;
  EncodeState* state_dev;
  uint32_t* selected_dev;

  TFC_HOST_DEVICE static Selection Of(const EncodedFrame& frame) {
    return {CompensatedVector(frame.compensation), frame.marks, frame.select, frame.state_dev,
            frame.support_dev};
  }
};

// The elements to choose from, in ascending order of indices.
class Candidates {
 public:
  __device__ explicit Candidates(const Selection& selection)
      : dense_(selection.dense),
        num_marked_(selection.marks.NumMarked()),
        are_listed_(num_marked_ >= selection.state_dev->k &&
                    num_marked_ <= selection.space.sample.capacity),
        indices_(selection.space.indices_dev),
        magnitudes_(selection.space.magnitudes_dev) {}

  __device__ bool AreListed() const { return are_listed_; }
  __device__ uint64_t Size() const { return are_listed_ ? num_marked_ : dense_.n; }
  __device__ uint32_t Index(bool listed, uint64_t i) const {
    return listed ? indices_[i] : static_cast<uint32_t>(i);
  }
  __device__ uint32_t Magnitude(bool listed, uint64_t i) const {
    return listed ? magnitudes_[i] : MagnitudeBits(dense_.At(static_cast<uint32_t>(i)));
  }

 private:
  DenseVector dense_;
  uint64_t num_marked_;
  bool are_listed_;
  const uint32_t* indices_;
  const uint32_t* magnitudes_;
};

// Finds the digit of the num_wanted-th largest: the threads of a block read the counts from the
// top. The prefix is known by one digit more then; after the last one, it is the whole magnitude.
__device__ void PickBucket(const uint32_t* counts, Digit digit, EncodeState* state) {
  constexpr uint32_t kOwnBuckets = kMaxBuckets / kBlockThreads;
  __shared__ uint32_t warp_sums[kBlockWarps];
  const uint32_t own_top = kMaxBuckets - 1 - threadIdx.x * kOwnBuckets;
  uint32_t own = 0;
  for (uint32_t i = 0; i < kOwnBuckets; ++i) own += counts[own_top - i];
  const uint32_t warp = threadIdx.x / kWarpThreads;
  uint32_t up_to_own = InclusiveSum(own);
  if (ThisLane() == kWarpThreads - 1) warp_sums[warp] = up_to_own;
  uint32_t wanted = state->num_wanted;
  __syncthreads();
  for (uint32_t before = 0; before < warp; ++before) up_to_own += warp_sums[before];
  if (up_to_own < wanted || up_to_own - own >= wanted) return;  // Another thread finds it.
  wanted -= up_to_own - own;
  uint32_t bucket = own_top;
  for (; counts[bucket] < wanted; --bucket) wanted -= counts[bucket];
  state->num_wanted = wanted;
  state->prefix = state->prefix << digit.num_bits | bucket;
}

// The counts of a block: cleared before counting, then added to those of the vector. The last of
// num_blocks blocks picks the bucket.
__device__ void ClearCounts(uint32_t* counts) {
  for (uint32_t bucket = threadIdx.x; bucket < kMaxBuckets; bucket += kBlockThreads)
    counts[bucket] = 0;
  __syncthreads();
}
__device__ void AddCounts(const uint32_t* counts, const Selection& selection, int digit,
                          uint32_t num_blocks) {
  __shared__ uint32_t num_before;
  __syncthreads();
  SelectCounts* const sums = selection.space.counts_dev;
  for (uint32_t bucket = threadIdx.x; bucket < kMaxBuckets; bucket += kBlockThreads)
    if (counts[bucket] != 0) atomicAdd(&sums->buckets[digit][bucket], counts[bucket]);
  if (IsLastBlock(num_blocks, &sums->num_counted[digit], &num_before))
    PickBucket(sums->buckets[digit], DigitAt(digit), selection.state_dev);
}

// Counts the digits of the candidates that have the prefix.
__device__ void CountDigits(const Candidates& candidates, Digit digit, uint32_t prefix,
                            uint32_t* counts) {
  const bool listed = candidates.AreListed();
  const uint64_t size = candidates.Size();
  for (uint64_t begin = ThisWarp() * kWarpThreads; begin < size; begin += NumThreads()) {
    const uint64_t i = begin + ThisLane();
    const uint32_t magnitude = i < size ? candidates.Magnitude(listed, i) : 0;
    CountBuckets(digit.Of(magnitude), i < size && digit.PrefixOf(magnitude) == prefix, counts);
  }
}

// Lists the candidates with their magnitudes, unless the dense vector is read, and counts their
// first digits.
template <typename Source>
__global__ void __launch_bounds__(kBlockThreads) ListCandidatesKernel(Source source) {
  const Selection selection = source.Get();
  if (selection.state_dev->nonfinite != 0) return;
  const SelectSpace& space = selection.space;
  const Candidates candidates(selection);
  const bool listed = candidates.AreListed();
  const uint32_t num_blocks = NumBusyBlocks(listed ? selection.marks.num_tiles() * kWarpThreads
                                                   : uint64_t{selection.dense.n});
  if (blockIdx.x >= num_blocks) return;
  __shared__ uint32_t counts[kMaxBuckets];
  ClearCounts(counts);
  if (listed) {
    const auto magnitude = [&](uint32_t index) { return MagnitudeBits(selection.dense.At(index)); };
    ForEachMarked(selection.marks, magnitude,
                  [&](uint64_t position, uint32_t index, uint32_t loaded) {
                    space.indices_dev[position] = index;
                    space.magnitudes_dev[position] = loaded;
                    atomicAdd(&counts[DigitAt(0).Of(loaded)], 1u);
                  });
  } else {
    CountDigits(candidates, DigitAt(0), /*prefix=*/0, counts);
  }
  AddCounts(counts, selection, 0, num_blocks);
}

template <typename Source>
__global__ void __launch_bounds__(kBlockThreads) CountDigitKernel(Source source, int number) {
  const Selection selection = source.Get();
  if (selection.state_dev->nonfinite != 0) return;
  const Candidates candidates(selection);
  const uint32_t num_blocks = NumBusyBlocks(candidates.Size());
  if (blockIdx.x >= num_blocks) return;
  __shared__ uint32_t counts[kMaxBuckets];
  ClearCounts(counts);
  CountDigits(candidates, DigitAt(number), selection.state_dev->prefix, counts);
  AddCounts(counts, selection, number, num_blocks);
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

// Counts the elements of each tile of candidates that are above the cut, in the high half, and
// equal to it, in the low half, and scans the counts.
template <typename Source>
__global__ void __launch_bounds__(kBlockThreads) CountKeptKernel(Source source) {
  const Selection selection = source.Get();
  const EncodeState* const state = selection.state_dev;
  if (state->nonfinite != 0) return;
  const Candidates candidates(selection);
  const bool listed = candidates.AreListed();
  const uint64_t size = candidates.Size();
  const uint64_t num_tiles = NumTiles(size);
  const uint32_t num_blocks = NumBusyBlocks(num_tiles * kWarpThreads);
  if (blockIdx.x >= num_blocks) return;
  uint64_t* const kept = selection.space.kept_dev;
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
  __shared__ uint32_t num_before;
  __shared__ uint64_t warp_sums[kBlockWarps];
  if (IsLastBlock(num_blocks, &selection.space.counts_dev->num_counted_kept, &num_before))
    ScanByBlock(kept, num_tiles, warp_sums);
}

// Writes the elements above the cut and the first ones equal to it, in order.
template <typename Source>
__global__ void WriteKeptKernel(Source source) {
  const Selection selection = source.Get();
  EncodeState* const state = selection.state_dev;
  if (state->nonfinite != 0) {
    if (ThisThread() == 0) state->k = 0;
    return;
  }
  const Candidates candidates(selection);
  const uint64_t* const kept = selection.space.kept_dev;
  const bool listed = candidates.AreListed();
  const uint64_t size = candidates.Size();
  const uint32_t cut = state->prefix;
  const uint32_t max_ties = state->num_wanted;
  for (uint64_t tile = ThisWarp(); tile < NumTiles(size); tile += NumWarps()) {
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
        selection.selected_dev[num_above + above_before + ties_kept] = candidates.Index(listed, i);
      }
      num_above += static_cast<uint32_t>(__popc(above));
      num_ties += static_cast<uint32_t>(__popc(ties));
    });
  }
}

}  // namespace

SelectSpace TakeSelectSpace(uint32_t n, uint32_t k, Workspace* workspace) {
  const SampleSize sample = SampleSizeOf(n, k);
  SelectSpace space = TakeSelectSpaces(1, NumTiles(n), sample.capacity, workspace);
  space.sample = sample;
  return space;
}

SelectSpace TakeSelectSpaces(uint64_t num_vectors, uint64_t num_tiles, uint64_t num_candidates,
                             Workspace* workspace) {
  SelectSpace space;
  space.counts_dev = workspace->Take<SelectCounts>(num_vectors);
  space.indices_dev = workspace->Take<uint32_t>(num_candidates);
  space.magnitudes_dev = workspace->Take<uint32_t>(num_candidates);
  space.kept_dev = workspace->Take<uint64_t>(num_tiles + num_vectors);
  return space;
}

Status SelectLargest(const Marks& marks, const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  const size_t count = frames.size();
  const PartItems tile_threads = CountFrameItems(frames, TileThreadsOf);
  const PartItems elements = CountFrameItems(
      frames, [](const EncodedFrame& frame) { return frame.compensation.gradient.n; });
  return WithViews<Selection>(frames, [&](const auto& source) -> Status {
    using Source = std::decay_t<decltype(source)>;
    TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
    TFC_RETURN_IF_ERROR(LaunchParts("list candidates", ListCandidatesKernel<Source>, tile_threads,
                                    count, stream, source));
    for (int digit = 1; digit < kNumDigits; ++digit) {
      TFC_RETURN_IF_ERROR(LaunchParts("count digit", CountDigitKernel<Source>, elements, count,
                                      stream, source, digit));
    }
    TFC_RETURN_IF_ERROR(
        LaunchParts("count kept", CountKeptKernel<Source>, tile_threads, count, stream, source));
    return LaunchParts("write kept", WriteKeptKernel<Source>, tile_threads, count, stream, source);
  });
}

Status SelectLargestValues(const Marks& marks, const Parts<EncodedFrame>& vectors,
                           cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(FindBounds(vectors, stream));
  TFC_RETURN_IF_ERROR(Settle(vectors, /*notes_nonfinite=*/false, stream));
  return SelectLargest(marks, vectors, stream);
}

}  // namespace device
}  // namespace tfcompress
