#include "core/float_order.h"
#include "cuda/bloom_priorities.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

// The marked elements and their filter.
struct Positives {
  const uint32_t* words;
  uint64_t num_words;
  const BloomShape* shape;
  uint64_t seed;

  // Calls visit(index) for those of this thread.
  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    for (uint64_t i = ThisThread(); i < num_words; i += NumThreads()) {
      for (uint32_t word = words[i]; word != 0; word &= word - 1)
        visit(static_cast<uint32_t>(i * 32) + static_cast<uint32_t>(__ffs(static_cast<int>(word))) -
              1);
    }
  }
  // Calls visit(bit) for the bits that the probes of `index` read, until it returns false.
  template <typename Visit>
  __device__ void VisitBits(uint32_t index, const Visit& visit) const {
    VisitBloomStarts(HashKey(index / kBloomBlockKeys, seed), *shape, [&](uint32_t start) {
      return visit(BloomBit(start, index, shape->num_bits));
    });
  }
};

// The sizes of conflict sets, four in a word.
struct SetSizes {
  uint32_t* words;

  __device__ uint32_t Of(uint32_t bit) const { return words[bit / 4] >> Shift(bit) & 0xFF; }
  __device__ void Clear(uint32_t bit) const { atomicAnd(&words[bit / 4], ~(0xFFu << Shift(bit))); }
  __device__ void Increment(uint32_t bit) const {
    uint32_t* word = &words[bit / 4];
    for (uint32_t found = *word; (found >> Shift(bit) & 0xFF) < kMaxConflictSetSize;) {
      const uint32_t expected = found;
      found = atomicCAS(word, expected, expected + (1u << Shift(bit)));
      if (found == expected) return;
    }
  }
  __device__ static uint32_t Shift(uint32_t bit) { return bit % 4 * 8; }
};

// Priorities are the bits of floats, which are selected as magnitudes.
__global__ void RandomiseKernel(Positives positives, float* priorities) {
  positives.ForEach([&](uint32_t index) {
    priorities[index] = FloatFromBits(RandomPriority(HashKey(index, positives.seed)));
  });
}

__global__ void CountMembersKernel(Positives positives, SetSizes sizes) {
  positives.ForEach([&](uint32_t index) {
    positives.VisitBits(index, [&](uint32_t bit) {
      sizes.Increment(bit);
      return true;
    });
  });
}

__global__ void FindCertainKernel(Positives positives, SetSizes sizes, float* priorities) {
  positives.ForEach([&](uint32_t index) {
    bool is_certain = false;
    positives.VisitBits(index, [&](uint32_t bit) {
      is_certain = sizes.Of(bit) == 1;
      return !is_certain;
    });
    if (is_certain) {
      priorities[index] =
          FloatFromBits(PriorityOf(kCertainEvidence, HashKey(index, positives.seed)));
    }
  });
}

__global__ void ExplainKernel(Positives positives, const float* priorities, SetSizes sizes) {
  positives.ForEach([&](uint32_t index) {
    if (FloatBits(priorities[index]) == 0) return;
    positives.VisitBits(index, [&](uint32_t bit) {
      sizes.Clear(bit);
      return true;
    });
  });
}

__global__ void WeighOthersKernel(Positives positives, SetSizes sizes, float* priorities) {
  positives.ForEach([&](uint32_t index) {
    if (FloatBits(priorities[index]) != 0) return;
    uint32_t evidence = 0;
    positives.VisitBits(index, [&](uint32_t bit) {
      evidence += ConflictEvidence(sizes.Of(bit));
      return true;
    });
    priorities[index] = FloatFromBits(PriorityOf(evidence, HashKey(index, positives.seed)));
  });
}

__global__ void BeginChoiceKernel(const uint32_t* k, EncodeState* state) {
  if (ThisThread() != 0) return;
  *state = {};
  state->k = *k;
  state->num_wanted = *k;
}

Status Weigh(const Positives& positives, const BloomPriorityBuffers& buffers, cudaStream_t stream) {
  const uint64_t count = positives.num_words;
  const SetSizes sizes = {buffers.set_sizes_dev};
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(sizes.words, 0, buffers.num_size_words * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(
      LaunchThreads("count members", CountMembersKernel, count, stream, positives, sizes));
  TFC_RETURN_IF_ERROR(LaunchThreads("find certain", FindCertainKernel, count, stream, positives,
                                    sizes, buffers.priorities_dev));
  TFC_RETURN_IF_ERROR(LaunchThreads("explain", ExplainKernel, count, stream, positives,
                                    buffers.priorities_dev, sizes));
  return LaunchThreads("weigh others", WeighOthersKernel, count, stream, positives, sizes,
                       buffers.priorities_dev);
}

}  // namespace

void TakeBloomPriorityBuffers(uint32_t n, uint32_t max_k, uint64_t max_bits, Workspace* workspace,
                              BloomPriorityBuffers* buffers) {
  buffers->priorities_dev = workspace->Take<float>(n);
  buffers->num_size_words = CeilDiv(max_bits, 4);
  buffers->set_sizes_dev = workspace->Take<uint32_t>(buffers->num_size_words);
  buffers->state_dev = workspace->Take<EncodeState>(1);
  buffers->select = TakeSelectSpace(n, max_k, workspace);
}

Status ChooseByPriority(BloomPolicy policy, const BloomShape* shape_dev, uint64_t seed,
                        const uint32_t* k_dev, const Marks& marks,
                        const BloomPriorityBuffers& buffers, uint32_t* indices_dev,
                        cudaStream_t stream) {
  const Positives positives = {marks.words_dev, marks.num_tiles() * kTileWords, shape_dev, seed};
  TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(buffers.priorities_dev, 0,
                                           static_cast<uint64_t>(marks.n) * sizeof(float), stream));
  if (policy == BloomPolicy::kP1) {
    TFC_RETURN_IF_ERROR(LaunchThreads("randomise", RandomiseKernel, positives.num_words, stream,
                                      positives, buffers.priorities_dev));
  } else {
    TFC_RETURN_IF_ERROR(Weigh(positives, buffers, stream));
  }
  TFC_RETURN_IF_ERROR(
      Launch("begin choice", BeginChoiceKernel, 1, kWarpThreads, stream, k_dev, buffers.state_dev));
  return SelectLargest(buffers.priorities_dev, buffers.select, marks, buffers.state_dev,
                       indices_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
