// Sums with the same bits as core/value/block_statistics.h: the same terms in the same order.
#ifndef TFCOMPRESS_CUDA_ORDERED_SUMS_H_
#define TFCOMPRESS_CUDA_ORDERED_SUMS_H_

#include <cstdint>

#include "core/executor.h"
#include "core/float_order.h"
#include "core/value/block_statistics.h"
#include "cuda/value_statistics.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {

struct SquareTerm {
  __device__ double operator()(float value) const {
    const double normal = NormalOrZero(value);
    return normal * normal;
  }
};

// SumTerms over [begin, end). Called by four adjacent lanes; each of them gets the sum.
template <typename Term>
__device__ double SumByFourLanes(uint64_t begin, uint64_t end, const Term& term) {
  const uint64_t lane = ThisLane() % 4;
  double sum = 0;
  uint64_t i = begin;
  for (; i + 4 <= end; i += 4) sum += term(i + lane);
  if (lane == 0) {
    for (; i < end; ++i) sum += term(i);
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  return sum + __shfl_xor_sync(kAllLanes, sum, 2);
}

inline constexpr uint64_t kPartsPerWarp = kWarpThreads / 4;

// Returns the largest term(i) over [begin, end), 0 if there is none. Called by four adjacent lanes;
// each of them gets it.
template <typename Term>
__device__ uint32_t MaxByFourLanes(uint64_t begin, uint64_t end, const Term& term) {
  uint32_t largest = 0;
  for (uint64_t i = begin + ThisLane() % 4; i < end; i += 4) {
    const uint32_t own = term(i);
    if (own > largest) largest = own;
  }
  for (int lanes = 1; lanes < 4; lanes *= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, largest, lanes);
    if (other > largest) largest = other;
  }
  return largest;
}

// Calls store(part, reduce(begin, end)), on one lane each, for the parts of `part_size` into which
// k values are cut. Four adjacent lanes call `reduce`; uses all warps of the grid.
template <typename Reduce, typename Store>
__device__ void ReduceEachPart(uint64_t k, uint64_t part_size, const Reduce& reduce,
                               const Store& store) {
  const uint64_t num_parts = CeilDiv(k, part_size);
  for (uint64_t tile = ThisWarp(); tile * kPartsPerWarp < num_parts; tile += NumWarps()) {
    const uint64_t part = tile * kPartsPerWarp + ThisLane() / 4;
    const uint64_t begin = part * part_size;
    const uint64_t end = begin + part_size < k ? begin + part_size : k;
    const auto reduced = reduce(begin, end);
    if (part < num_parts && ThisLane() % 4 == 0) store(part, reduced);
  }
}

// The same with the sum of term(value) over the values of a part.
template <typename Term, typename Store>
__device__ void SumEachPart(const SelectedValues& values, uint64_t k, uint64_t part_size,
                            const Term& term, const Store& store) {
  const auto sum = [&](uint64_t begin, uint64_t end) {
    return SumByFourLanes(begin, end, [&](uint64_t i) { return term(values.At(i)); });
  };
  ReduceEachPart(k, part_size, sum, store);
}

// Returns term(begin) + ... + term(end - 1), added in this order. Called by a warp; every lane gets
// the sum.
template <typename Term>
__device__ double SumInOrder(uint64_t begin, uint64_t end, const Term& term) {
  double sum = 0;
  for (; begin < end; begin += kWarpThreads) {
    const uint64_t i = begin + ThisLane();
    const double own = i < end ? term(i) : 0;
    for (int lane = 0; lane < static_cast<int>(kWarpThreads); ++lane)
      sum += __shfl_sync(kAllLanes, own, lane);
  }
  return sum;
}

// Returns the sum over k values that SumSquares or SumSigns prepared. Called by a warp.
__device__ inline double SumOfBlocks(const SumBuffers& buffers, uint64_t k) {
  return SumInOrder(0, CeilDiv(k, kBlockElements),
                    [&](uint64_t block) { return buffers.blocks_dev[block]; });
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ORDERED_SUMS_H_
