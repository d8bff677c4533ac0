#include <cmath>

#include "core/float_order.h"
#include "core/value/sign_means.h"
#include "cuda/launch.h"
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

// The warps of a block first meet in shared memory: atomics on one word of the device follow one
// another.
__global__ void FindExtremesKernel(SelectedValues values, const uint32_t* count,
                                   Extremes* extremes) {
  __shared__ Extremes block;
  if (threadIdx.x == 0) block = {};
  __syncthreads();
  Extremes own = {};
  const uint64_t end = *count;
  for (uint64_t i = ThisThread(); i < end; i += NumThreads()) Note(values.At(i), &own);
  RaiseTo(own.complement_of_least_key, &block.complement_of_least_key);
  RaiseTo(own.largest_key, &block.largest_key);
  RaiseTo(own.largest_magnitude, &block.largest_magnitude);
  RaiseTo(own.complement_of_least_normal, &block.complement_of_least_normal);
  const uint32_t num_negative = SumOfLanes(own.num_negative);
  if (ThisLane() == 0) atomicAdd(&block.num_negative, num_negative);
  __syncthreads();
  if (threadIdx.x != 0) return;
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

template <typename Term>
__global__ void SumPartsKernel(SelectedValues values, Term term, const uint32_t* count,
                               double* parts) {
  SumEachPart(values, *count, kSumPart, term,
              [&](uint64_t part, double sum) { parts[part] = sum; });
}

// One warp per block.
__global__ void SumBlocksKernel(const double* parts, const uint32_t* count, double* blocks) {
  const uint64_t num_parts = CeilDiv(*count, kSumPart);
  for (uint64_t block = ThisWarp(); block * kPartsPerBlock < num_parts; block += NumWarps()) {
    const uint64_t begin = block * kPartsPerBlock;
    const uint64_t end = begin + kPartsPerBlock < num_parts ? begin + kPartsPerBlock : num_parts;
    const double sum = SumInOrder(begin, end, [&](uint64_t part) { return parts[part]; });
    if (ThisLane() == 0) blocks[block] = sum;
  }
}

template <typename Term>
Status Sum(const SelectedValues& values, const Term& term, uint32_t max_count,
           const uint32_t* count_dev, const SumBuffers& buffers, cudaStream_t stream) {
  const uint64_t num_parts = CeilDiv(max_count, kSumPart);
  TFC_RETURN_IF_ERROR(LaunchWarps("sum parts", SumPartsKernel<Term>,
                                  CeilDiv(num_parts, kPartsPerWarp), stream, values, term,
                                  count_dev, buffers.parts_dev));
  return LaunchWarps("sum blocks", SumBlocksKernel, CeilDiv(num_parts, kPartsPerBlock), stream,
                     buffers.parts_dev, count_dev, buffers.blocks_dev);
}

}  // namespace

Status FindExtremes(const SelectedValues& values, uint32_t max_count, const uint32_t* count_dev,
                    Extremes* extremes_dev, cudaStream_t stream) {
  return LaunchThreads("find extremes", FindExtremesKernel, max_count, stream, values, count_dev,
                       extremes_dev);
}

void TakeSumBuffers(uint32_t max_count, Workspace* workspace, SumBuffers* buffers) {
  buffers->parts_dev = workspace->Take<double>(CeilDiv(max_count, kSumPart));
  buffers->blocks_dev = workspace->Take<double>(CeilDiv(max_count, kBlockElements));
}

Status SumMagnitudes(const SelectedValues& values, uint32_t max_count, const uint32_t* count_dev,
                     const SumBuffers& buffers, cudaStream_t stream) {
  return Sum(values, MagnitudeTerm{}, max_count, count_dev, buffers, stream);
}

Status SumSquares(const SelectedValues& values, uint32_t max_count, const uint32_t* count_dev,
                  const SumBuffers& buffers, cudaStream_t stream) {
  return Sum(values, SquareTerm{}, max_count, count_dev, buffers, stream);
}

Status SumOfSign(uint32_t sign_bit, const SelectedValues& values, uint32_t max_count,
                 const uint32_t* count_dev, const SumBuffers& buffers, cudaStream_t stream) {
  return Sum(values, SignTerm{sign_bit}, max_count, count_dev, buffers, stream);
}

}  // namespace device
}  // namespace tfcompress
