#include "core/float_order.h"
#include "cuda/bloom_priorities.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

// The marked elements of a filter.
struct Positives {
  const uint32_t* words;
  uint64_t num_words;
  BloomShape shape;
  uint64_t seed;

  __device__ explicit Positives(const BloomPart& part)
      : words(part.marks.words_dev),
        num_words(part.marks.num_tiles() * kTileWords),
        shape(part.shape),
        seed(part.seed) {}

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
    VisitBloomStarts(HashKey(index / kBloomBlockKeys, seed), shape,
                     [&](uint32_t start) { return visit(BloomBit(start, index, shape.num_bits)); });
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
__global__ void RandomiseKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.policy != BloomPolicy::kP1 || part.k == 0) return;
  const Positives positives(part);
  float* const priorities = part.priorities_dev;
  positives.ForEach([&](uint32_t index) {
    priorities[index] = FloatFromBits(RandomPriority(HashKey(index, positives.seed)));
  });
}

__global__ void CountMembersKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.policy != BloomPolicy::kP2 || part.k == 0) return;
  const Positives positives(part);
  const SetSizes sizes = {part.set_sizes_dev};
  positives.ForEach([&](uint32_t index) {
    positives.VisitBits(index, [&](uint32_t bit) {
      sizes.Increment(bit);
      return true;
    });
  });
}

__global__ void FindCertainKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.policy != BloomPolicy::kP2 || part.k == 0) return;
  const Positives positives(part);
  const SetSizes sizes = {part.set_sizes_dev};
  float* const priorities = part.priorities_dev;
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

__global__ void ExplainKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.policy != BloomPolicy::kP2 || part.k == 0) return;
  const Positives positives(part);
  const SetSizes sizes = {part.set_sizes_dev};
  const float* const priorities = part.priorities_dev;
  positives.ForEach([&](uint32_t index) {
    if (FloatBits(priorities[index]) == 0) return;
    positives.VisitBits(index, [&](uint32_t bit) {
      sizes.Clear(bit);
      return true;
    });
  });
}

__global__ void WeighOthersKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.policy != BloomPolicy::kP2 || part.k == 0) return;
  const Positives positives(part);
  const SetSizes sizes = {part.set_sizes_dev};
  float* const priorities = part.priorities_dev;
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
