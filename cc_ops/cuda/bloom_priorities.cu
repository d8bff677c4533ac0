#include "core/float_order.h"
#include "cuda/bloom_priorities.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/load_volatile.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

// The sizes of conflict sets, four in a word.
struct SetSizes {
  uint32_t* words;

  __device__ uint32_t Of(uint32_t bit) const { return words[bit / 4] >> Shift(bit) & 0xFF; }
  __device__ void Clear(uint32_t bit) const { atomicAnd(&words[bit / 4], ~(0xFFu << Shift(bit))); }
  __device__ void Increment(uint32_t bit) const {
    uint32_t* word = &words[bit / 4];
    for (uint32_t found = LoadVolatile(word); (found >> Shift(bit) & 0xFF) < kMaxConflictSetSize;) {
      const uint32_t expected = found;
      found = atomicCAS(word, expected, expected + (1u << Shift(bit)));
      if (found == expected) return;
    }
  }
  __device__ static uint32_t Shift(uint32_t bit) { return bit % 4 * 8; }
};

// The marked elements of a filter, and their priorities: the bits of floats, which are selected as
// magnitudes.
struct Positives {
  const uint32_t* words;
  uint64_t num_words;
  BloomShape shape;
  uint64_t seed;
  SetSizes sizes;
  float* priorities;

  __device__ explicit Positives(const BloomPart& part)
      : words(part.marks.words_dev),
        num_words(part.marks.num_tiles() * kTileWords),
        shape(part.shape),
        seed(part.seed),
        sizes{part.set_sizes_dev},
        priorities(part.priorities_dev) {}

  // Calls visit(bit) for the bits that the probes of `index` read, until it returns false.
  template <typename Visit>
  __device__ void VisitBits(uint32_t index, const Visit& visit) const {
    VisitBloomStarts(HashKey(index / kBloomBlockKeys, seed), shape,
                     [&](uint32_t start) { return visit(BloomBit(start, index, shape.num_bits)); });
  }
  __device__ bool IsWeighed(uint32_t index) const { return FloatBits(priorities[index]) != 0; }
  __device__ void Weigh(uint32_t index, uint32_t evidence) const {
    priorities[index] = FloatFromBits(PriorityOf(evidence, HashKey(index, seed)));
  }
};

// Calls body(positives, index) for the positives of the part of the block that are those of this
// thread, if the part chooses by this policy.
template <typename Body>
__device__ void ForEachPositive(const BloomPart* parts, BloomPolicy policy, const Body& body) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.policy != policy || part.k == 0) return;
  const Positives positives(part);
  for (uint64_t i = ThisThread(); i < positives.num_words; i += NumThreads()) {
    for (uint32_t word = positives.words[i]; word != 0; word &= word - 1) {
      const auto bit = static_cast<uint32_t>(__ffs(static_cast<int>(word))) - 1;
      body(positives, static_cast<uint32_t>(i * 32) + bit);
    }
  }
}

__global__ void RandomiseKernel(const BloomPart* parts) {
  ForEachPositive(parts, BloomPolicy::kP1, [](const Positives& positives, uint32_t index) {
    positives.priorities[index] = FloatFromBits(RandomPriority(HashKey(index, positives.seed)));
  });
}

__global__ void CountMembersKernel(const BloomPart* parts) {
  ForEachPositive(parts, BloomPolicy::kP2, [](const Positives& positives, uint32_t index) {
    positives.VisitBits(index, [&](uint32_t bit) {
      positives.sizes.Increment(bit);
      return true;
    });
  });
}

__global__ void FindCertainKernel(const BloomPart* parts) {
  ForEachPositive(parts, BloomPolicy::kP2, [](const Positives& positives, uint32_t index) {
    bool is_certain = false;
    positives.VisitBits(index, [&](uint32_t bit) {
      is_certain = positives.sizes.Of(bit) == 1;
      return !is_certain;
    });
    if (is_certain) positives.Weigh(index, kCertainEvidence);
  });
}

__global__ void ExplainKernel(const BloomPart* parts) {
  ForEachPositive(parts, BloomPolicy::kP2, [](const Positives& positives, uint32_t index) {
    if (!positives.IsWeighed(index)) return;
    positives.VisitBits(index, [&](uint32_t bit) {
      positives.sizes.Clear(bit);
      return true;
    });
  });
}

__global__ void WeighOthersKernel(const BloomPart* parts) {
  ForEachPositive(parts, BloomPolicy::kP2, [](const Positives& positives, uint32_t index) {
    if (positives.IsWeighed(index)) return;
    uint32_t evidence = 0;
    positives.VisitBits(index, [&](uint32_t bit) {
      evidence += ConflictEvidence(positives.sizes.Of(bit));
      return true;
    });
    positives.Weigh(index, evidence);
  });
}

Status Weigh(const BloomParts& parts, cudaStream_t stream) {
  const auto launch = [&](const char* name, void (*kernel)(const BloomPart*)) {
    return LaunchParts(name, kernel, parts.words, parts.count, stream, parts.data_dev);
  };
  TFC_RETURN_IF_ERROR(launch("count members", CountMembersKernel));
  TFC_RETURN_IF_ERROR(launch("find certain", FindCertainKernel));
  TFC_RETURN_IF_ERROR(launch("explain", ExplainKernel));
  return launch("weigh others", WeighOthersKernel);
}

}  // namespace

BloomPriorityBuffers TakeBloomPriorityBuffers(uint64_t num_filters, const Marks& marks,
                                              uint64_t num_size_words, Workspace* workspace) {
  BloomPriorityBuffers buffers;
  buffers.vectors_dev = workspace->Take<EncodedFrame>(num_filters);
  buffers.states_dev = workspace->Take<EncodeState>(num_filters);
  buffers.priorities_dev = workspace->Take<float>(marks.num_tiles() * kTileElements);
  buffers.set_sizes_dev = workspace->Take<uint32_t>(num_size_words);
  buffers.num_size_words = num_size_words;
  return buffers;
}

Status ChooseByPriority(const BloomParts& parts, bool has_random, bool has_weighed,
                        const BloomPriorityBuffers& buffers, Span<const EncodedFrame> vectors,
                        cudaStream_t stream) {
  if (parts.words.total == 0) return OkStatus();
  const uint64_t num_priorities = parts.marks.num_tiles() * kTileElements;
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.priorities_dev, 0, num_priorities * sizeof(float), stream));
  if (has_random) {
    TFC_RETURN_IF_ERROR(LaunchParts("randomise", RandomiseKernel, parts.words, parts.count, stream,
                                    parts.data_dev));
  }
  if (has_weighed) {
    TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(buffers.set_sizes_dev, 0,
                                             buffers.num_size_words * sizeof(uint32_t), stream));
    TFC_RETURN_IF_ERROR(Weigh(parts, stream));
  }
  return SelectLargestValues(parts.marks, {vectors, buffers.vectors_dev}, stream);
}

}  // namespace device
}  // namespace tfcompress
