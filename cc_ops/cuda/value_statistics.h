// What value codecs ask of all values before they code any: extremes, and sums in the order of
// core/value/block_statistics.h, so that they have the same bits.
#ifndef TFCOMPRESS_CUDA_VALUE_STATISTICS_H_
#define TFCOMPRESS_CUDA_VALUE_STATISTICS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/executor.h"
#include "core/status.h"
#include "core/value/block_statistics.h"
#include "cuda/dense_vector.h"
#include "cuda/encode_state.h"
#include "cuda/warp.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// The elements of a support, in its order.
struct SelectedValues {
  DenseVector dense;
  const uint32_t* indices_dev;  // Null: all elements.

  __device__ uint32_t IndexOf(uint64_t i) const {
    return indices_dev == nullptr ? static_cast<uint32_t>(i) : indices_dev[i];
  }
  __device__ float At(uint64_t i) const { return dense.At(IndexOf(i)); }
};

struct Extremes {
  uint32_t complement_of_least_key;  // Of OrderedKey: so that all of these begin as 0 and grow.
  uint32_t largest_key;
  uint32_t largest_magnitude;  // Bits.
  uint32_t num_negative;
};

// Adds those of the state_dev->k <= max_k values to *extremes_dev, which is 0 before.
Status FindExtremes(const SelectedValues& values, uint32_t max_k, const EncodeState* state_dev,
                    Extremes* extremes_dev, cudaStream_t stream);

// Sums of parts, and of blocks of them, for up to max_k values.
struct SumBuffers {
  double* parts_dev;
  double* blocks_dev;
};
void TakeSumBuffers(uint32_t max_k, Workspace* workspace, SumBuffers* buffers);

Status SumSquares(const SelectedValues& values, uint32_t max_k, const EncodeState* state_dev,
                  const SumBuffers& buffers, cudaStream_t stream);
// Of the values of one sign.
Status SumOfSign(uint32_t sign_bit, const SelectedValues& values, uint32_t max_k,
                 const EncodeState* state_dev, const SumBuffers& buffers, cudaStream_t stream);

struct SquareTerm {
  __device__ double operator()(float value) const {
    const double normal = NormalOrZero(value);
    return normal * normal;
  }
};

// SumTerms of values [begin, end), by four lanes that are next to each other and all call this;
// every one of them gets it.
template <typename Term>
__device__ double SumByFourLanes(const SelectedValues& values, uint64_t begin, uint64_t end,
                                 const Term& term) {
  const uint64_t lane = ThisLane() % 4;
  double sum = 0;
  uint64_t i = begin;
  for (; i + 4 <= end; i += 4) sum += term(values.At(i + lane));
  if (lane == 0) {
    for (; i < end; ++i) sum += term(values.At(i));
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  return sum + __shfl_xor_sync(kAllLanes, sum, 2);
}

// terms[0] + ... + terms[count - 1], one after the other, by a warp; every lane gets it.
__device__ inline double SumInOrder(const double* terms, uint64_t count) {
  double sum = 0;
  for (uint64_t begin = 0; begin < count; begin += kWarpThreads) {
    const uint64_t i = begin + ThisLane();
    const double term = i < count ? terms[i] : 0;
    const uint64_t rest = count - begin;
    for (int lane = 0; lane < static_cast<int>(kWarpThreads); ++lane) {
      const double next = __shfl_sync(kAllLanes, term, lane);
      if (static_cast<uint64_t>(lane) < rest) sum += next;
    }
  }
  return sum;
}

// The sum that SumSquares or SumOfSign found of k values, by a warp.
__device__ inline double SumOfBlocks(const SumBuffers& buffers, uint64_t k) {
  return SumInOrder(buffers.blocks_dev, CeilDiv(k, kBlockElements));
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUE_STATISTICS_H_
