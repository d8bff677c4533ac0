#include <type_traits>

#include "core/float_order.h"
#include "core/hash.h"
#include "core/host_device.h"
#include "cuda/digits.h"
#include "cuda/launch_frames.h"
#include "cuda/memories.h"
#include "cuda/sampled_bound.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kOwnSamples = kSampleSize / kBlockThreads;

// The bits of a magnitude that are decided; 11 of the fraction.
constexpr int kTopBit = 30, kLowestBit = 12;

// What the bound of a vector follows from.
struct Sampling {
  Compensation step;
  EncodeState* state;
  SelectCounts* counts;
  uint32_t rank;
  uint64_t seed;

  TFC_HOST_DEVICE static Sampling Of(const EncodedFrame& frame) {
    return {frame.compensation, frame.state_dev, frame.select.counts_dev, frame.select.sample.rank,
            frame.header.seed};
  }
};

// The i-th element of the sample: one of each part of the vector.
__device__ uint32_t SampledIndex(uint32_t n, uint64_t seed, uint32_t i) {
  const uint64_t begin = uint64_t{n} * i / kSampleSize;
  const uint64_t size = uint64_t{n} * (i + 1) / kSampleSize - begin;
  return static_cast<uint32_t>(begin + ((HashKey(i, seed) >> 32) * size >> 32));
}

// Bit after bit, the largest bound that `rank` of the block's magnitudes meet. `num_above` is 0
// before.
__device__ uint32_t BoundOf(const uint32_t (&magnitudes)[kOwnSamples], uint32_t rank,
                            uint32_t* num_above) {
  uint32_t bound = 0;
  for (int bit = kTopBit; bit >= kLowestBit; --bit) {
    const uint32_t next = bound | 1u << bit;
    uint32_t own = 0;
    for (uint32_t magnitude : magnitudes) own += magnitude >= next;
    own = SumOfLanes(own);
    if (ThisLane() == 0 && own != 0) atomicAdd(&num_above[bit], own);
    __syncthreads();
    if (num_above[bit] >= rank) bound = next;
  }
  return bound;
}

// One block for a vector.
template <typename Memory, typename Source>
__global__ void __launch_bounds__(kBlockThreads) FindBoundKernel(Source source) {
  __shared__ uint32_t num_above[kTopBit + 1];
  const Sampling sampling = source.Get();
  auto* const counts = reinterpret_cast<uint32_t*>(sampling.counts);
  for (uint32_t i = threadIdx.x; i < sizeof(SelectCounts) / sizeof(uint32_t); i += kBlockThreads)
    counts[i] = 0;
  const DenseVector gradient = sampling.step.gradient;
  uint32_t bound = 0;
  if (sampling.rank > 0) {
    const Memory memory(sampling.step);
    uint32_t magnitudes[kOwnSamples];
    for (uint32_t j = 0; j < kOwnSamples; ++j) {
      const uint32_t i = SampledIndex(gradient.n, sampling.seed, threadIdx.x + j * kBlockThreads);
      magnitudes[j] = MagnitudeBits(CompensatedOf(memory.Next(gradient.At(i), i)));
    }
    if (threadIdx.x <= kTopBit) num_above[threadIdx.x] = 0;
    __syncthreads();
    bound = BoundOf(magnitudes, sampling.rank, num_above);
  }
  if (threadIdx.x == 0) sampling.state->min_magnitude = bound == 0 ? 1 : bound;
}

}  // namespace

Status FindBounds(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return WithMemory(frames.on_host[0].compensation.memory, [&](auto* kind) {
    using Memory = std::remove_pointer_t<decltype(kind)>;
    return WithViews<Sampling>(frames, [&](const auto& source) {
      return Launch("find bound", FindBoundKernel<Memory, std::decay_t<decltype(source)>>,
                    dim3(1, static_cast<unsigned>(frames.size())), kBlockThreads, stream, source);
    });
  });
}

}  // namespace device
}  // namespace tfcompress
