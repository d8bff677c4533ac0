#include <cmath>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/value/sign_means.h"
#include "cuda/encoded_frame.h"
#include "cuda/launch_frames.h"
#include "cuda/ordered_sums.h"
#include "cuda/value_statistics.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint64_t kPartsPerBlock = kBlockElements / kSumPart;

__device__ void RaiseTo(uint32_t value, uint32_t* address) {
  const uint32_t largest = MaxOfLanes(value);
  if (ThisLane() == 0) atomicMax(address, largest);
}

__device__ void Note(float value, Extremes* own) {
  const uint32_t key = OrderedKey(value);
  const uint32_t magnitude = FloatBits(value) & kFloatMagnitudeBits;
  if (~key > own->complement_of_least_key) own->complement_of_least_key = ~key;
  if (key > own->largest_key) own->largest_key = key;
  if (magnitude > own->largest_magnitude) own->largest_magnitude = magnitude;
  if (magnitude >= kLeastNormalBits && ~magnitude > own->complement_of_least_normal)
    own->complement_of_least_normal = ~magnitude;
  own->num_negative += IsNegative(value);
}

template <ObservedValues kValues>
TFC_HOST_DEVICE SelectedValues ValuesOf(const EncodedFrame& frame) {
  return kValues == ObservedValues::kSent ? frame.values : frame.Support();
}

// Values to observe.
template <ObservedValues kValues>
struct Observed {
  SelectedValues values;
  const uint32_t* count;
  Extremes* extremes;

  TFC_HOST_DEVICE static Observed Of(const EncodedFrame& frame) {
    return {ValuesOf<kValues>(frame), &frame.state_dev->k, frame.extremes_dev};
  }
};

// The warps of a block first meet in shared memory: atomics on one word of the device follow one
// another.
template <typename Source>
__global__ void FindExtremesKernel(Source source) {
  __shared__ Extremes block;
  const auto observed = source.Get();
  const uint64_t end = *observed.count;
  if (blockIdx.x >= NumBusyBlocks(end)) return;
  if (threadIdx.x == 0) block = {};
  __syncthreads();
  Extremes own = {};
  for (uint64_t i = ThisThread(); i < end; i += NumThreads()) Note(observed.values.At(i), &own);
  RaiseTo(own.complement_of_least_key, &block.complement_of_least_key);
  RaiseTo(own.largest_key, &block.largest_key);
  RaiseTo(own.largest_magnitude, &block.largest_magnitude);
  RaiseTo(own.complement_of_least_normal, &block.complement_of_least_normal);
  const uint32_t num_negative = SumOfLanes(own.num_negative);
  if (ThisLane() == 0) atomicAdd(&block.num_negative, num_negative);
  __syncthreads();
  if (threadIdx.x != 0) return;
  Extremes* const extremes = observed.extremes;
  atomicMax(&extremes->complement_of_least_key, block.complement_of_least_key);
  atomicMax(&extremes->largest_key, block.largest_key);
  atomicMax(&extremes->largest_magnitude, block.largest_magnitude);
  atomicMax(&extremes->complement_of_least_normal, block.complement_of_least_normal);
  atomicAdd(&extremes->num_negative, block.num_negative);
}

struct MagnitudeTerm {
  __device__ double operator()(float value) const { return std::fabs(NormalOrZero(value)); }
};

struct SignTerm {
  uint32_t sign_bit;

  __device__ double operator()(float value) const { return SignMeans::Term(value, sign_bit); }
};

// Values to sum; of a frame, for one of its sums.
template <int kSum, ObservedValues kValues>
struct Summed {
  SelectedValues values;
  const uint32_t* count;
  SumBuffers buffers;

  TFC_HOST_DEVICE static Summed Of(const EncodedFrame& frame) {
    return {ValuesOf<kValues>(frame), &frame.state_dev->k, frame.sums[kSum]};
  }
};

template <typename Term, typename Source>
__global__ void SumPartsKernel(Source source, Term term) {
  const auto summed = source.Get();
  SumEachPart(summed.values, *summed.count, kSumPart, term,
              [&](uint64_t part, double sum) { summed.buffers.parts_dev[part] = sum; });
}

// One warp per block.
template <typename Source>
__global__ void SumBlocksKernel(Source source) {
  const auto summed = source.Get();
  const double* const parts = summed.buffers.parts_dev;
  const uint64_t num_parts = CeilDiv(*summed.count, kSumPart);
  for (uint64_t block = ThisWarp(); block * kPartsPerBlock < num_parts; block += NumWarps()) {
    const uint64_t begin = block * kPartsPerBlock;
    const uint64_t end = begin + kPartsPerBlock < num_parts ? begin + kPartsPerBlock : num_parts;
    const double sum = SumInOrder(begin, end, [&](uint64_t part) { return parts[part]; });
    if (ThisLane() == 0) summed.buffers.blocks_dev[block] = sum;
  }
}

uint64_t PartThreads(uint32_t max_count) {
  return CeilDiv(CeilDiv(max_count, kSumPart), kPartsPerWarp) * kWarpThreads;
}
uint64_t BlockThreads(uint32_t max_count) {
  return CeilDiv(CeilDiv(max_count, kSumPart), kPartsPerBlock) * kWarpThreads;
}

template <int kSum, ObservedValues kValues = ObservedValues::kSent, typename Term>
Status Sum(const Parts<EncodedFrame>& frames, const Term& term, cudaStream_t stream) {
  using View = Summed<kSum, kValues>;
  TFC_RETURN_IF_ERROR(LaunchViews<View>(
      "sum parts", [](auto source) { return SumPartsKernel<Term, decltype(source)>; }, frames,
      [](const EncodedFrame& frame) { return PartThreads(frame.max_sent); }, stream, term));
  return LaunchViews<View>(
      "sum blocks", [](auto source) { return SumBlocksKernel<decltype(source)>; }, frames,
      [](const EncodedFrame& frame) { return BlockThreads(frame.max_sent); }, stream);
}

template <ObservedValues kValues>
Status FindExtremes(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchViews<Observed<kValues>>(
      "find extremes", [](auto source) { return FindExtremesKernel<decltype(source)>; }, frames,
      MaxSentOf, stream);
}

}  // namespace

Status FindExtremes(const Parts<EncodedFrame>& frames, ObservedValues observed,
                    cudaStream_t stream) {
  if (observed == ObservedValues::kSent) return FindExtremes<ObservedValues::kSent>(frames, stream);
  return FindExtremes<ObservedValues::kSupport>(frames, stream);
}

void TakeSums(int num_sums, Workspace* workspace, Span<EncodedFrame> frames) {
  uint64_t num_parts = 0, num_blocks = 0;
  for (const EncodedFrame& frame : frames) {
    num_parts += CeilDiv(frame.max_sent, kSumPart);
    num_blocks += CeilDiv(frame.max_sent, kBlockElements);
  }
  for (int sum = 0; sum < num_sums; ++sum) {
    auto* parts_dev = workspace->Take<double>(num_parts);
    auto* blocks_dev = workspace->Take<double>(num_blocks);
    for (EncodedFrame& frame : frames) {
      frame.sums[sum] = {parts_dev, blocks_dev};
      parts_dev += CeilDiv(frame.max_sent, kSumPart);
      blocks_dev += CeilDiv(frame.max_sent, kBlockElements);
    }
  }
}

Status SumMagnitudes(const Parts<EncodedFrame>& frames, ObservedValues observed,
                     cudaStream_t stream) {
  if (observed == ObservedValues::kSent) return Sum<0>(frames, MagnitudeTerm{}, stream);
  return Sum<0, ObservedValues::kSupport>(frames, MagnitudeTerm{}, stream);
}

Status SumSquares(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return Sum<0>(frames, SquareTerm{}, stream);
}

Status SumSigns(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(Sum<0>(frames, SignTerm{0}, stream));
  return Sum<1>(frames, SignTerm{1}, stream);
}

}  // namespace device
}  // namespace tfcompress
